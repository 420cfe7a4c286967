// SPDX-License-Identifier: GPL-2.0

//! The limit on the pages of a target, with three ways to count them.
//!
//! The module parameter `limit_mode` selects the way, for comparison:
//!
//! - 0, *exact*: compares the sum of a per-CPU counter, as dm-crypt did at first. Near the limit
//!   each request takes a lock and reads the counters of all CPUs. Concurrent requests may still
//!   exceed the limit.
//! - 1, *approx*: reads the shared count of a per-CPU counter, as dm-crypt does now. The count is
//!   approximate.
//! - 2, *credit* (default): takes credits from a limiter. The cost is that of *approx*, the limit
//!   is exact.

use kernel::prelude::*;

use core::{
    cmp::Ordering,
    num::NonZeroU16, //
};

use kscale::percpu::{
    counter::PerCpuCounter,
    limiter::CreditCounter, //
};

/// The error of each CPU's count in mode `approx`, in pages.
///
/// Common bios have 32 pages, and that is the default batch with up to 16 CPUs: each bio would take
/// the lock of the counter twice. With this batch the count is off by at most half a MiB per CPU.
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
    /// Returns the mode for a value of the module parameter.
    pub(crate) fn from_param(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Exact),
            1 => Some(Self::Approx),
            2 => Some(Self::Credit),
            _ => None,
        }
    }
}

/// A count of pages with a limit.
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
            // `try_charge()` sets the limit, because it changes with the number of targets.
            Mode::Credit => Self::Credit(CreditCounter::new(0)?),
        })
    }

    /// Adds `pages` to the count unless that exceeds `limit_pages`. Returns whether they fit.
    ///
    /// The modes with a counter check only that the count is below the limit before the call, as
    /// dm-crypt does. The last request may exceed the limit.
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

    /// Adds `pages` to the count, even beyond the limit.
    pub(crate) fn charge(&self, pages: usize) {
        match self {
            // CAST: As above.
            Self::Exact(counter) => counter.add(pages as i64),
            Self::Approx(counter) => counter.add_batch(pages as i64, BATCH),
            Self::Credit(credits) => {
                // Fails only on overflow, and no system has that many pages.
                let _ = credits.charge(pages as u64);
            }
        }
    }

    /// Subtracts `pages` from the count.
    pub(crate) fn uncharge(&self, pages: usize) {
        match self {
            // CAST: As above.
            Self::Exact(counter) => counter.sub(pages as i64),
            Self::Approx(counter) => counter.add_batch((pages as i64).wrapping_neg(), BATCH),
            Self::Credit(credits) => credits.uncharge(pages as u64),
        }
    }

    /// Returns the count. It is exact if the count does not change concurrently.
    #[cfg(kscale_kunit)]
    pub(crate) fn pages(&self) -> usize {
        match self {
            // CAST: Not negative.
            Self::Exact(counter) | Self::Approx(counter) => counter.sum_positive() as usize,
            Self::Credit(credits) => credits.in_use() as usize,
        }
    }
}

/// Sets the limit of `credits` to `limit`.
fn follow(credits: &CreditCounter, limit: u64) {
    if credits.limit() != limit {
        // After too many concurrent updates the call fails; the next charge tries again.
        let _ = credits.set_limit(limit);
    }
}
