// SPDX-License-Identifier: GPL-2.0

//! Bounce pages for writes.
//!
//! The target must not modify the pages of a submitter, so it encrypts writes into bounce pages and
//! frees them when the device completes the write. As in dm-crypt, this memory is limited: all
//! targets together use 2 % of memory, but each target may use at least 16 MiB. Above the limit, or
//! without free memory, a target uses the reserve of its pool. [`Limit`] counts the pages.
//!
//! The module parameter `page_mode` selects how pages are allocated, for comparison, see
//! [`Strategy`]. The default is [`Strategy::Mixed`].
//!
//! # Why the pool cannot deadlock
//!
//! - A write takes all its pages at once, and holds no page of the reserve while it waits for the
//!   reserve, see [`Mempool::alloc_bulk()`]. dm-crypt takes page by page, under a mutex.
//! - No write needs more pages than the reserve has, see [`MAX_WRITE`].
//! - A write that holds pages of the reserve needs no further memory: encryption allocates none,
//!   and the completion of the I/O frees the pages in any context, without a worker.
//! - The clone of a bio is allocated before its pages, so no write waits for a clone while it holds
//!   pages. Each write has one clone, of any length.
//! - Blocks of pages do not come from the reserve, so a write that holds blocks while it waits for
//!   the reserve blocks no other write.
//!
//! [`Mempool::alloc_bulk()`]: kscale::mm::mempool::Mempool::alloc_bulk
//! [`MAX_WRITE`]: crate::split::MAX_WRITE

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::{
    num::NonZeroU32,
    ops::RangeInclusive, //
};

use kscale::{
    block::dm,
    mm::{
        gfp::Gfp,
        mempool::Allocator,
        page::{
            self,
            CompoundPage,
            Page, //
        },
        page_stash::{
            Options,
            PageStash, //
        }, //
    }, //
};

use crate::{
    limit::{
        Limit,
        Mode, //
    },
    stats, //
};

/// Pages in the reserve of a target: enough for the largest bio.
pub(crate) const RESERVE_PAGES: usize = 256;

/// The share of the system's memory for all targets together.
const MEMORY_PERCENT: usize = 2;

/// The minimum limit of a target, for any number of targets.
const MIN_PAGES_PER_TARGET: usize = 16 * RESERVE_PAGES;

/// The largest block order that the page allocator caches per CPU: `PAGE_ALLOC_COSTLY_ORDER` in
/// `include/linux/mmzone.h`. Larger blocks need the zone lock.
const ORDER_OF_CPU: u32 = 3;

/// The number of targets that share the memory.
static TARGETS: Atomic<usize> = Atomic::new(0);

/// The share of one target in the memory; counts the target in [`TARGETS`].
struct Share;

impl Share {
    fn new() -> Self {
        TARGETS.add(1, Relaxed);
        Self
    }

    /// Returns the size of the share in pages.
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

/// A way to allocate pages that are not from the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Strategy {
    /// Allocates pages one by one from the page allocator.
    Single,
    /// Allocates all pages of a write in one call.
    Bulk,
    /// Allocates the largest available blocks, as dm-crypt does, and the rest one by one.
    Compound,
    /// Takes pages from a stash with the given number of pages per CPU, and the rest as
    /// [`Strategy::Bulk`]. Freed pages go to the stash. Stashed pages do not count.
    Recycled(u8),
    /// Allocates blocks of the order that the page allocator caches per CPU, and the rest as
    /// [`Strategy::Bulk`]. If memory is fragmented, that is all of the pages.
    Mixed,
}

impl Strategy {
    /// Returns the strategy for values of the module parameters.
    pub(crate) fn from_params(page_mode: u8, cached_pages: u8) -> Option<Self> {
        match page_mode {
            0 => Some(Self::Single),
            1 => Some(Self::Bulk),
            2 => Some(Self::Compound),
            3 => Some(Self::Recycled(cached_pages)),
            4 => Some(Self::Mixed),
            _ => None,
        }
    }

    /// Returns the block orders to try, from the largest down, limited to `max`.
    fn block_orders(self, max: u32) -> RangeInclusive<u32> {
        match self {
            Self::Compound => 1..=max,
            // If no block of that order is free, smaller blocks cost more than they save: each
            // failed request costs as much as ten pages in bulk.
            Self::Mixed => {
                let order = max.min(ORDER_OF_CPU);
                order..=order
            }
            Self::Single | Self::Bulk | Self::Recycled(_) => RangeInclusive::new(1, 0),
        }
    }
}

/// The page allocator, limited to the target's share of memory.
pub(crate) struct LimitedPages {
    share: Share,
    /// Pages of the target, including those in its reserve.
    allocated: Limit,
    strategy: Strategy,
    cache: Option<PageStash>,
}

impl LimitedPages {
    /// Creates an allocator.
    pub(crate) fn new(mode: Mode, strategy: Strategy) -> Result<Self> {
        let cache = match strategy {
            Strategy::Recycled(cached_pages) if cached_pages > 0 => {
                let options = Options {
                    pages_per_cpu: cached_pages.into(),
                    ..Options::default()
                };
                Some(PageStash::new(c"rcrypt", options)?)
            }
            _ => None,
        };

        Ok(Self {
            share: Share::new(),
            allocated: Limit::new(mode)?,
            strategy,
            cache,
        })
    }

    /// Returns a page from the stash.
    fn cached_page(&self) -> Option<Page> {
        let page = self.cache.as_ref()?.get()?;
        stats::count_cached_pages(1);
        Some(page)
    }

    /// Fills `slots` with pages from the stash, then from the page allocator. Returns their number.
    fn fill(&self, gfp: Gfp, slots: &mut [Option<Page>]) -> usize {
        let cached = self.cache.as_ref().map_or(0, |cache| cache.get_bulk(slots));
        stats::count_cached_pages(cached);

        let rest = slots.get_mut(cached..).unwrap_or_default();
        let bulk = page::alloc_bulk(gfp, rest);
        stats::count_bulk_pages(bulk);
        cached.saturating_add(bulk)
    }

    /// Charges `count` pages unless that exceeds the target's share. Returns whether they fit.
    fn try_charge(&self, count: usize) -> bool {
        let admitted = self.allocated.try_charge(count, self.share.limit_pages());

        if !admitted {
            stats::count_refusal();
        }
        admitted
    }
}

impl Allocator for LimitedPages {
    type Memory = Page;

    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        // Allocations for the reserve are not limited.
        let optional = gfp.contains(Gfp::NORETRY);

        if !optional {
            self.allocated.charge(1);
        } else if !self.try_charge(1) {
            return None;
        } else if let Some(page) = self.cached_page() {
            return Some(page);
        }
        let Ok(page) = Page::alloc(gfp) else {
            self.allocated.uncharge(1);
            return None;
        };
        if optional {
            stats::count_single_page();
        }
        Some(page)
    }

    fn free(&self, page: Page) {
        // The page is freed if the stash is full.
        let _ = match &self.cache {
            Some(cache) => cache.put(page),
            None => Err(page),
        };
        self.allocated.uncharge(1);
    }

    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Page>]) {
        if matches!(self.strategy, Strategy::Single | Strategy::Compound)
            || !self.try_charge(slots.len())
        {
            return;
        }
        let count = self.fill(gfp, slots);
        self.allocated.uncharge(slots.len().saturating_sub(count));
    }

    fn free_bulk(&self, slots: &mut [Option<Page>]) {
        let count = slots.iter().flatten().count();

        if let Some(cache) = &self.cache {
            cache.put_bulk(slots);
        }
        slots.fill_with(|| None);
        self.allocated.uncharge(count);
    }
}

impl dm::CompoundSource for LimitedPages {
    fn alloc_compound(&self, max_order: NonZeroU32) -> Option<CompoundPage> {
        /// Does not wait for memory, warn about failure or wake kswapd and kcompactd: the caller
        /// falls back to single pages.
        const OPTIONAL: Gfp = Gfp::NOMEMALLOC.union(Gfp::NORETRY).union(Gfp::NOWARN);
        /// As in dm-crypt, which wakes kswapd.
        const WAKING: Gfp = OPTIONAL.union(Gfp::NOWAIT);

        let limit = self.share.limit_pages();
        let gfp = match self.strategy {
            Strategy::Compound => WAKING,
            _ => OPTIONAL,
        };
        let mut orders = self.strategy.block_orders(max_order.get()).rev();
        orders.find_map(|order| {
            let count = 1 << order;
            if !self.allocated.try_charge(count, limit) {
                return None;
            }
            let block = CompoundPage::alloc(gfp, NonZeroU32::new(order)?);
            match block {
                Ok(_) => stats::count_compound_pages(count),
                Err(_) => self.allocated.uncharge(count),
            }
            block.ok()
        })
    }

    fn free_compound(&self, block: CompoundPage) {
        self.allocated.uncharge(block.pages());
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_pages)]
mod tests {
    use super::*;

    use kernel::cpu;

    use crate::limit::BATCH;

    const MODES: [Mode; 3] = [Mode::Exact, Mode::Approx, Mode::Credit];

    /// The flags with which the pool asks for optional pages.
    const OPTIONAL: Gfp = Gfp::KERNEL.union(Gfp::NORETRY);

    /// Returns the maximum error of the count.
    fn error_pages(mode: Mode) -> usize {
        match mode {
            Mode::Approx => usize::from(BATCH.get()) * cpu::nr_cpu_ids() as usize,
            // Exact in a single task.
            Mode::Exact | Mode::Credit => 0,
        }
    }

    /// Allocates pages until an allocation fails, at most `max` pages.
    fn take(pages: &LimitedPages, max: usize) -> Result<KVec<Page>> {
        let mut taken = KVec::new();

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
        for mode in MODES {
            let pages = LimitedPages::new(mode, Strategy::Bulk)?;
            let limit = pages.share.limit_pages();
            let error = error_pages(mode);

            let taken = take(&pages, limit + 2 * error + 1)?;
            assert!(taken.len() <= limit + error);
            assert!(taken.len() + error >= limit);
            assert_eq!(pages.allocated.pages(), taken.len());

            let mut slots = [None, None];
            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert!(slots.iter().all(Option::is_none));

            let needed = pages.alloc(Gfp::KERNEL).ok_or(ENOMEM)?;
            assert_eq!(pages.allocated.pages(), taken.len() + 1);
            pages.free(needed);

            taken.into_iter().for_each(|page| pages.free(page));
            assert_eq!(pages.allocated.pages(), 0);
            assert!(pages.alloc(OPTIONAL).map(|page| pages.free(page)).is_some());
        }
        Ok(())
    }

    #[test]
    fn bulk_pages_are_counted_both_ways() -> Result {
        for mode in MODES {
            let pages = LimitedPages::new(mode, Strategy::Bulk)?;
            let mut slots = [const { None }; 32];

            pages.alloc_bulk(OPTIONAL, &mut slots);
            let count = slots.iter().flatten().count();
            assert!(count > 0);
            assert_eq!(pages.allocated.pages(), count);

            pages.free_bulk(&mut slots);
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
        }
        Ok(())
    }

    #[test]
    fn what_is_not_had_does_not_count() -> Result {
        use kscale::block::dm::CompoundSource;

        for mode in MODES {
            let pages = LimitedPages::new(mode, Strategy::Mixed)?;
            let order = NonZeroU32::MIN.saturating_add(1);
            let mut slots = [const { None }; 8];

            page::ALLOC.fail(|| {
                assert!(pages.alloc(OPTIONAL).is_none());
                assert!(pages.alloc(Gfp::KERNEL).is_none());
                assert!(pages.alloc_compound(order).is_none());
                pages.alloc_bulk(OPTIONAL, &mut slots);
            });
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
        }
        Ok(())
    }

    #[test]
    fn bulk_is_for_strategies_that_have_it() -> Result {
        for (strategy, count) in [
            (Strategy::Single, 0),
            (Strategy::Bulk, 8),
            (Strategy::Compound, 0),
            (Strategy::Recycled(8), 8),
            (Strategy::Mixed, 8),
        ] {
            let pages = LimitedPages::new(Mode::Credit, strategy)?;
            let mut slots = [const { None }; 8];

            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert_eq!(slots.iter().flatten().count(), count);
            assert_eq!(pages.allocated.pages(), count);
            pages.free_bulk(&mut slots);
        }
        Ok(())
    }

    #[test]
    fn blocks_are_for_two_strategies_and_count() -> Result {
        use kscale::block::dm::CompoundSource;

        let order = NonZeroU32::MIN.saturating_add(1);
        for strategy in [Strategy::Single, Strategy::Bulk, Strategy::Recycled(8)] {
            let pages = LimitedPages::new(Mode::Credit, strategy)?;
            assert!(pages.alloc_compound(order).is_none());
        }

        for (mode, strategy) in MODES
            .into_iter()
            .flat_map(|mode| [(mode, Strategy::Compound), (mode, Strategy::Mixed)])
        {
            let pages = LimitedPages::new(mode, strategy)?;
            let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
            assert!(block.order() <= order.get());
            assert_eq!(pages.allocated.pages(), block.pages());
            pages.free_compound(block);
            assert_eq!(pages.allocated.pages(), 0);

            let limit = pages.share.limit_pages();
            pages.allocated.charge(limit + error_pages(mode));
            assert!(pages.alloc_compound(order).is_none());
            pages.allocated.uncharge(limit + error_pages(mode));
        }
        Ok(())
    }

    #[test]
    fn smaller_blocks_are_as_good() -> Result {
        use kscale::block::dm::CompoundSource;

        let pages = LimitedPages::new(Mode::Credit, Strategy::Compound)?;
        let limit = pages.share.limit_pages();
        pages.allocated.charge(limit - 3);

        let order = NonZeroU32::MIN.saturating_add(4);
        let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
        assert_eq!(block.pages(), 2);
        pages.free_compound(block);
        pages.allocated.uncharge(limit - 3);
        Ok(())
    }

    #[test]
    fn mixed_has_blocks_that_cpus_keep_or_none() -> Result {
        use kscale::block::dm::CompoundSource;

        let pages = LimitedPages::new(Mode::Credit, Strategy::Mixed)?;
        let order = NonZeroU32::MIN.saturating_add(7);
        let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
        assert_eq!(block.order(), ORDER_OF_CPU);
        pages.free_compound(block);

        // The rest of the limit suffices for a smaller block.
        let limit = pages.share.limit_pages();
        pages.allocated.charge(limit - 3);
        assert!(pages.alloc_compound(order).is_none());
        pages.allocated.uncharge(limit - 3);
        Ok(())
    }

    #[test]
    fn pages_that_are_done_with_are_used_again() -> Result {
        let pages = LimitedPages::new(Mode::Credit, Strategy::Recycled(32))?;
        let cache = pages.cache.as_ref().ok_or(EINVAL)?;
        let mut slots = [const { None }; 32];

        // The task may migrate, so the second round may find only a part of the pages in its stash.
        for _ in 0..4 {
            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert_eq!(slots.iter().flatten().count(), 32);
            assert_eq!(pages.allocated.pages(), 32);
            pages.free_bulk(&mut slots);
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
            assert!(cache.cached() >= 32);
        }
        let page = pages.alloc(OPTIONAL).ok_or(ENOMEM)?;
        assert_eq!(pages.allocated.pages(), 1);
        pages.free(page);
        assert_eq!(pages.allocated.pages(), 0);
        Ok(())
    }

    #[test]
    fn limit_follows_the_number_of_targets() -> Result {
        let pages = LimitedPages::new(Mode::Credit, Strategy::Bulk)?;
        let limit = pages.share.limit_pages();
        assert!(pages.try_charge(limit));
        pages.allocated.uncharge(limit);

        let others = [Share::new(), Share::new(), Share::new()];
        let shared = pages.share.limit_pages();
        assert!(!pages.try_charge(shared + 1));
        assert!(pages.try_charge(shared));
        pages.allocated.uncharge(shared);

        drop(others);
        assert!(pages.try_charge(limit));
        pages.allocated.uncharge(limit);
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
