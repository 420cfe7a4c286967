// SPDX-License-Identifier: GPL-2.0

//! How many pages a target may have, by one of three ways to count them.
//!
//! The parameter `limit_mode` chooses, for comparison:
//!
//! - 0, *exact*: the sum of a per-CPU counter is compared. That is what dm-crypt had first. Next to
//!   the limit each request takes a lock and looks at every CPU, and still, who compares at the same
//!   time as others has too much.
//! - 1, *approx*: the shared count of such a counter is read, as in dm-crypt now. It may be off.
//! - 2, *credit*: credits are taken from a limiter, the default. As cheap, and exact.

use kernel::prelude::*;

use core::{
    cmp::Ordering,
    num::NonZeroU16, //
};

use kscale::percpu::{
    counter::PerCpuCounter,
    limiter::CreditCounter, //
};

/// How far a CPU's count may be off in mode `approx`.
///
/// The common bios have 32 pages, the default batch of up to 16 CPUs: every one of them would take
/// the lock of the counter, twice. With this batch the limit is off by half a MiB per CPU at most.
pub(crate) const BATCH: NonZeroU16 = match NonZeroU16::new(128) {
    Some(batch) => batch,
    None => NonZeroU16::MIN,
};

/// A way to count pages.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    Exact,
    Approx,
    Credit,
}

impl Mode {
    /// Returns the mode that a value of the module parameter means.
    pub(crate) fn from_param(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Exact),
            1 => Some(Self::Approx),
            2 => Some(Self::Credit),
            _ => None,
        }
    }
}

/// A number of pages, and whether there may be more.
pub(crate) enum Limit {
    Exact(Pin<KBox<PerCpuCounter>>),
    Approx(Pin<KBox<PerCpuCounter>>),
    Credit(CreditCounter),
}

impl Limit {
    pub(crate) fn new(mode: Mode) -> Result<Self> {
        let counter = || KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL);

        Ok(match mode {
            Mode::Exact => Self::Exact(counter()?),
            Mode::Approx => Self::Approx(counter()?),
            // The limit is set when it is needed, as it changes with the number of targets.
            Mode::Credit => Self::Credit(CreditCounter::new(0)?),
        })
    }

    /// Counts `pages` more if there may be as many, of `limit_pages`.
    ///
    /// A counter does not say whether all of them still fit: it was always so that the last request
    /// may go beyond.
    pub(crate) fn try_charge(&self, pages: usize, limit_pages: usize) -> bool {
        // CAST: Numbers of pages are below 2^52.
        let limit = limit_pages as i64;

        let admitted = match self {
            Self::Exact(counter) => counter.compare(limit) == Ordering::Less,
            Self::Approx(counter) => counter.compare_approx(limit) == Ordering::Less,
            Self::Credit(credits) => {
                // CAST: From 64 to 64 bits, both times.
                follow(credits, limit_pages as u64);
                return credits.try_charge(pages as u64);
            }
        };
        if admitted {
            self.charge(pages);
        }
        admitted
    }

    /// Counts `pages` more, whatever the limit.
    pub(crate) fn charge(&self, pages: usize) {
        match self {
            // CAST: As above.
            Self::Exact(counter) => counter.add(pages as i64),
            Self::Approx(counter) => counter.add_batch(pages as i64, BATCH),
            Self::Credit(credits) => {
                // That many pages there are not.
                let _ = credits.charge(pages as u64);
            }
        }
    }

    /// Counts `pages` less.
    pub(crate) fn uncharge(&self, pages: usize) {
        match self {
            // CAST: As above.
            Self::Exact(counter) => counter.sub(pages as i64),
            Self::Approx(counter) => counter.add_batch((pages as i64).wrapping_neg(), BATCH),
            Self::Credit(credits) => credits.uncharge(pages as u64),
        }
    }

    /// Returns how many there are, exactly if nobody counts meanwhile.
    #[cfg(kscale_kunit)]
    pub(crate) fn pages(&self) -> usize {
        match self {
            // CAST: Not negative.
            Self::Exact(counter) | Self::Approx(counter) => counter.sum_positive() as usize,
            Self::Credit(credits) => credits.in_use() as usize,
        }
    }
}

/// Makes `limit` the limit of `credits`.
fn follow(credits: &CreditCounter, limit: u64) {
    if credits.limit() != limit {
        // If too many do so at once, it is done the next time.
        let _ = credits.set_limit(limit);
    }
}
