// SPDX-License-Identifier: GPL-2.0

//! The pages that writes are encrypted into.
//!
//! A writer's pages must stay as they are, so what is written is encrypted into pages of the
//! target's own, until the device has taken them. That memory is limited per target, as in dm-crypt: all targets together
//! use 2 % of memory, though at least 16 MiB each. Above its limit, and without memory, a target
//! lives on the reserve of its pool.
//!
//! # Why the pool cannot deadlock
//!
//! - A write takes all its pages at once, and waits for the reserve without holding any of it, see
//!   [`Mempool::alloc_bulk()`]. dm-crypt takes page by page, under a mutex.
//! - No write needs more pages than the reserve has, see [`MAX_BIO_SECTORS`].
//! - Who holds pages of the reserve has encryption, which needs no memory, and I/O before it, whose
//!   completion gives them back in any context: no worker is needed for that.
//! - The bio for the pages is allocated before them, and nobody who has pages waits for a bio.
//!
//! [`Mempool::alloc_bulk()`]: kscale::mempool::Mempool::alloc_bulk
//! [`MAX_BIO_SECTORS`]: crate::io::MAX_BIO_SECTORS

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::num::NonZeroU16;

use kscale::{
    gfp::Gfp,
    mempool::Allocator,
    new_percpu_counter,
    page::{
        self,
        Page, //
    },
    percpu_counter::PerCpuCounter, //
};

use crate::stats;

/// Pages in the reserve of a target: enough for the largest bio there is.
pub(crate) const RESERVE_PAGES: usize = 256;

/// What all targets together use of memory that the kernel has mapped.
const MEMORY_PERCENT: usize = 2;

/// What a target may use however many there are.
const MIN_PAGES_PER_TARGET: usize = 16 * RESERVE_PAGES;

/// How far a CPU's count may be off.
///
/// The common bios have 32 pages, the default batch of up to 16 CPUs: every one of them would take
/// the lock of the counter, twice. With this batch the limit is off by half a MiB per CPU at most.
const BATCH: NonZeroU16 = match NonZeroU16::new(128) {
    Some(batch) => batch,
    None => NonZeroU16::MIN,
};

/// The number of targets that share the memory.
static TARGETS: Atomic<usize> = Atomic::new(0);

/// One target's claim to its part of the memory.
struct Share;

impl Share {
    fn new() -> Self {
        TARGETS.add(1, Relaxed);
        Self
    }

    /// Returns the part in pages.
    fn limit_pages(&self) -> usize {
        // OVERFLOW: The number of pages is below 2^52.
        let pages = page::totalram_pages().wrapping_mul(MEMORY_PERCENT) / 100;

        pages
            .checked_div(TARGETS.load(Relaxed))
            .unwrap_or(pages)
            .max(MIN_PAGES_PER_TARGET)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        TARGETS.fetch_sub(1, Relaxed);
    }
}

/// The page allocator, limited to the target's share of memory.
#[pin_data]
pub(crate) struct LimitedPages {
    share: Share,
    /// Pages that the target has, in its reserve too.
    #[pin]
    allocated: PerCpuCounter,
}

impl LimitedPages {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            share: Share::new(),
            allocated <- new_percpu_counter!(0),
        })
    }

    /// Returns whether the target has its share.
    ///
    /// Reads the approximate count, as the exact one would cost each write a look at every CPU.
    fn is_at_limit(&self) -> bool {
        // CAST: Not negative.
        self.allocated.read_positive() as usize >= self.share.limit_pages()
    }

    /// Notes that there are `count` pages more.
    fn account(&self, count: usize) {
        // CAST: Counts of pages are far from 2^63.
        self.allocated.add_batch(count as i64, BATCH);
    }

    /// Notes that there are `count` pages less.
    fn unaccount(&self, count: usize) {
        // CAST: As above.
        self.allocated
            .add_batch((count as i64).wrapping_neg(), BATCH);
    }
}

impl Allocator for LimitedPages {
    type Memory = Page;

    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        // The reserve is filled whatever the limit.
        let optional = gfp.contains(Gfp::NORETRY);

        if optional && self.is_at_limit() {
            return None;
        }
        let page = Page::alloc(gfp).ok()?;
        self.account(1);
        if optional {
            stats::count_single_page();
        }
        Some(page)
    }

    fn free(&self, page: Page) {
        drop(page);
        self.unaccount(1);
    }

    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Page>]) {
        if self.is_at_limit() {
            return;
        }
        let count = page::alloc_bulk(gfp, slots);
        self.account(count);
        stats::count_bulk_pages(count);
    }

    fn free_bulk(&self, slots: &mut [Option<Page>]) {
        let count = slots.iter_mut().filter_map(Option::take).map(drop).count();

        self.unaccount(count);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_pages)]
mod tests {
    use super::*;
    use kernel::cpu;

    /// As the pool asks for pages that it can do without.
    const OPTIONAL: Gfp = Gfp::KERNEL.union(Gfp::NORETRY);

    /// How far the approximate count may be off.
    fn error_pages() -> usize {
        usize::from(BATCH.get()) * cpu::nr_cpu_ids() as usize
    }

    /// Takes pages until there are no more, but at most `max`.
    fn take(pages: &LimitedPages, max: usize) -> Result<KVec<Page>> {
        let mut taken = KVec::with_capacity(max, GFP_KERNEL)?;

        while taken.len() < max {
            let Some(page) = pages.alloc(OPTIONAL) else {
                break;
            };
            taken.push(page, GFP_KERNEL)?;
        }
        Ok(taken)
    }

    #[test]
    fn limit_is_for_pages_that_the_pool_can_do_without() -> Result {
        let pages = KBox::try_pin_init(LimitedPages::new(), GFP_KERNEL)?;
        let limit = pages.share.limit_pages();

        let taken = take(&pages, limit + 2 * error_pages())?;
        assert!(taken.len() <= limit + error_pages());
        assert!(taken.len() + error_pages() >= limit);
        assert_eq!(
            pages.allocated.sum(),
            i64::try_from(taken.len()).unwrap_or(-1)
        );

        let mut slots = [None, None];
        pages.alloc_bulk(OPTIONAL, &mut slots);
        assert!(slots.iter().all(Option::is_none));

        let needed = pages.alloc(Gfp::KERNEL).ok_or(ENOMEM)?;
        pages.free(needed);

        taken.into_iter().for_each(|page| pages.free(page));
        assert_eq!(pages.allocated.sum(), 0);
        assert!(!pages.is_at_limit());
        Ok(())
    }

    #[test]
    fn bulk_pages_are_counted_both_ways() -> Result {
        let pages = KBox::try_pin_init(LimitedPages::new(), GFP_KERNEL)?;
        let mut slots = [const { None }; 32];

        pages.alloc_bulk(OPTIONAL, &mut slots);
        let count = slots.iter().flatten().count();
        assert!(count > 0);
        assert_eq!(pages.allocated.sum(), i64::try_from(count).unwrap_or(-1));

        pages.free_bulk(&mut slots);
        assert!(slots.iter().all(Option::is_none));
        assert_eq!(pages.allocated.sum(), 0);
        Ok(())
    }

    #[test]
    fn targets_share_the_memory() {
        let alone = Share::new();
        let limit = alone.limit_pages();

        let others = [Share::new(), Share::new(), Share::new()];
        let shared = alone.limit_pages();
        assert!(shared <= limit / 4 + 1 || shared == MIN_PAGES_PER_TARGET);

        drop(others);
        assert_eq!(alone.limit_pages(), limit);
    }
}
