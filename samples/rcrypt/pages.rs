// SPDX-License-Identifier: GPL-2.0

//! Bounce pages for writes.
//!
//! The target must not modify the pages of a submitter, so it encrypts writes into bounce pages and
//! frees them when the device completes the write. As in dm-crypt, this memory is limited: all
//! targets together use 2 % of memory, but each target may use at least 16 MiB. Above the limit, or
//! without free memory, a target uses the reserve of its pool. [`Limit`] counts the pages.
//!
//! # Parameters for benchmarks
//!
//! Three module parameters select past, present and proposed ways of dm-crypt, to compare their
//! cost. The defaults are a compromise between memory with large free blocks and fragmented memory;
//! other values serve benchmarks only.
//!
//! - `limit_mode` selects how [`Limit`] counts the pages. 0, *exact*: compares the sum of a per-CPU
//!   counter, as dm-crypt did at first. Near the limit each request takes a lock and reads the
//!   counters of all CPUs. Concurrent requests may still exceed the limit. 1, *approx*: reads the
//!   shared count of a per-CPU counter, as dm-crypt does now. The count is approximate. 2, *credit*
//!   (default): takes credits from a limiter. The cost is that of *approx*, the limit is exact.
//! - `page_mode` selects how pages are allocated, see [`PageMode`]. The default is
//!   [`PageMode::Mixed`].
//! - `cached_pages` is the number of pages that a target stashes for each CPU with `page_mode=3`.
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
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

use core::{
    cmp::Ordering,
    num::{
        NonZeroU16,
        NonZeroU32, //
    },
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
    },
    percpu::{
        counter::PerCpuCounter,
        limiter::CreditCounter, //
    }, //
};

use crate::{
    module_parameters,
    stats::{
        BULK_PAGES,
        CACHED_PAGES,
        COMPOUND_PAGES,
        REFUSALS,
        SINGLE_PAGES, //
    },
    Shared, //
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

/// The maximum size of a small write, in pages. A bio has a table for so many segments
/// (`BIO_INLINE_VECS` in `include/linux/blk_types.h`).
const SMALL_PAGES: usize = 4;

/// The share of one target in the memory; counts the target in [`Shared::targets`].
struct Share(Arc<Shared>);

impl Share {
    fn new(shared: Arc<Shared>) -> Self {
        shared.targets.add(1, Relaxed);
        Self(shared)
    }

    /// Returns the size of the share in pages.
    fn limit_pages(&self) -> usize {
        share_pages(page::totalram_pages(), self.0.targets.load(Relaxed))
    }
}

/// Returns the share of a target in a memory of `ram_pages`, in pages.
fn share_pages(ram_pages: usize, targets: usize) -> usize {
    // OVERFLOW: The number of pages is below 2^52.
    let pages = ram_pages.wrapping_mul(MEMORY_PERCENT) / 100;

    pages
        .checked_div(targets)
        .unwrap_or(pages)
        .max(MIN_PAGES_PER_TARGET)
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.targets.fetch_sub(1, Relaxed);
    }
}

/// The values of the parameters for benchmarks.
#[derive(Clone, Copy)]
pub(crate) struct Modes {
    limit: LimitMode,
    page: PageMode,
}

impl Modes {
    /// Returns [`EINVAL`] if a module parameter has no such value.
    pub(crate) fn from_params() -> Result<Self> {
        let limit_mode = module_parameters::limit_mode.value();
        let page_mode = module_parameters::page_mode.value();
        let cached_pages = module_parameters::cached_pages.value();

        let Some(limit) = LimitMode::from_param(limit_mode) else {
            pr_err!("limit_mode={limit_mode}: it is 0 (exact), 1 (approx) or 2 (credit)\n");
            return Err(EINVAL);
        };
        if usize::from(cached_pages) > PageStash::MAX_PAGES_PER_CPU {
            pr_err!(
                "cached_pages={cached_pages}: it is at most {}\n",
                PageStash::MAX_PAGES_PER_CPU
            );
            return Err(EINVAL);
        }
        let Some(page) = PageMode::from_params(page_mode, cached_pages) else {
            pr_err!(
                "page_mode={page_mode}: it is 0 (single), 1 (bulk), 2 (compound), 3 (recycled) or \
                 4 (mixed)\n"
            );
            return Err(EINVAL);
        };
        Ok(Self { limit, page })
    }
}

/// A way to allocate pages that are not from the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PageMode {
    /// Allocates pages one by one from the page allocator.
    Single,
    /// Allocates all pages of a write in one call.
    Bulk,
    /// Allocates the largest available blocks, as dm-crypt does, and the rest one by one.
    Compound,
    /// Takes pages from a stash with the given number of pages per CPU, and the rest as
    /// [`PageMode::Bulk`]. Freed pages go to the stash. Stashed pages do not count.
    Recycled(u8),
    /// Allocates blocks of the order that the page allocator caches per CPU, and the rest as
    /// [`PageMode::Bulk`]. If memory is fragmented, that is all of the pages. The pages of small
    /// writes come from a stash, as in [`PageMode::Recycled`].
    Mixed,
}

impl PageMode {
    /// Returns the mode for values of the module parameters.
    fn from_params(page_mode: u8, cached_pages: u8) -> Option<Self> {
        match page_mode {
            0 => Some(Self::Single),
            1 => Some(Self::Bulk),
            2 => Some(Self::Compound),
            3 => Some(Self::Recycled(cached_pages)),
            4 => Some(Self::Mixed),
            _ => None,
        }
    }

    /// Returns the number of pages that a target stashes for each CPU.
    fn cached_pages(self) -> usize {
        match self {
            Self::Recycled(cached_pages) => cached_pages.into(),
            Self::Mixed => PageStash::MAX_PAGES_PER_CPU,
            Self::Single | Self::Bulk | Self::Compound => 0,
        }
    }

    /// Returns whether the stash has `pages` pages for one write.
    fn is_cached(self, pages: usize) -> bool {
        match self {
            Self::Mixed => pages <= SMALL_PAGES,
            _ => true,
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

/// The error of each CPU's count in mode `approx`, in pages.
///
/// Common bios have 32 pages, and that is the default batch with up to 16 CPUs: each bio would take
/// the lock of the counter twice. With this batch the count is off by at most half a MiB per CPU.
const BATCH: NonZeroU16 = match NonZeroU16::new(128) {
    Some(batch) => batch,
    None => NonZeroU16::MIN,
};

/// A way to count pages.
#[derive(Clone, Copy, PartialEq)]
enum LimitMode {
    Exact,
    Approx,
    Credit,
}

impl LimitMode {
    /// Returns the mode for a value of the module parameter.
    fn from_param(value: u8) -> Option<Self> {
        match value {
            0 => Some(Self::Exact),
            1 => Some(Self::Approx),
            2 => Some(Self::Credit),
            _ => None,
        }
    }
}

/// A count of pages with a limit.
enum Limit {
    Exact(Pin<KBox<PerCpuCounter>>),
    Approx(Pin<KBox<PerCpuCounter>>),
    Credit(CreditCounter),
}

impl Limit {
    fn new(mode: LimitMode) -> Result<Self> {
        let counter = || KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL);

        Ok(match mode {
            LimitMode::Exact => Self::Exact(counter()?),
            LimitMode::Approx => Self::Approx(counter()?),
            // `try_charge()` sets the limit, because it changes with the number of targets.
            LimitMode::Credit => Self::Credit(CreditCounter::new(0)?),
        })
    }

    /// Adds `pages` to the count unless that exceeds `limit_pages`. Returns whether they fit.
    ///
    /// The modes with a counter check only that the count is below the limit before the call, as
    /// dm-crypt does. The last request may exceed the limit.
    fn try_charge(&self, pages: usize, limit_pages: usize) -> bool {
        // CAST: Numbers of pages are below 2^52.
        let limit = limit_pages as i64;

        let admitted = match self {
            Self::Exact(counter) => counter.compare(limit) == Ordering::Less,
            Self::Approx(counter) => counter.compare_approx(limit) == Ordering::Less,
            Self::Credit(credits) => {
                // CAST: From 64 to 64 bits.
                let limit = limit_pages as u64;
                if credits.limit() != limit {
                    // After too many concurrent updates the call fails; the next charge tries
                    // again.
                    let _ = credits.set_limit(limit);
                }
                // CAST: From 64 to 64 bits.
                return credits.try_charge(pages as u64);
            }
        };
        if admitted {
            self.charge(pages);
        }
        admitted
    }

    /// Adds `pages` to the count, even beyond the limit.
    fn charge(&self, pages: usize) {
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
    fn uncharge(&self, pages: usize) {
        match self {
            // CAST: As above.
            Self::Exact(counter) => counter.sub(pages as i64),
            Self::Approx(counter) => counter.add_batch((pages as i64).wrapping_neg(), BATCH),
            Self::Credit(credits) => credits.uncharge(pages as u64),
        }
    }

    /// Returns the count. It is exact if the count does not change concurrently.
    #[cfg(kscale_kunit)]
    fn pages(&self) -> usize {
        match self {
            // CAST: Not negative.
            Self::Exact(counter) | Self::Approx(counter) => counter.sum_positive() as usize,
            Self::Credit(credits) => credits.in_use() as usize,
        }
    }
}

/// The page allocator, limited to the target's share of memory.
pub(crate) struct LimitedPages {
    share: Share,
    /// Pages of the target, including those in its reserve.
    allocated: Limit,
    mode: PageMode,
    cache: Option<PageStash>,
}

impl LimitedPages {
    /// Creates an allocator.
    pub(crate) fn new(shared: Arc<Shared>, modes: Modes) -> Result<Self> {
        let cache = match modes.page.cached_pages() {
            0 => None,
            pages_per_cpu => {
                let options = Options {
                    pages_per_cpu,
                    ..Options::default()
                };
                Some(PageStash::new(c"rcrypt", options)?)
            }
        };

        Ok(Self {
            share: Share::new(shared),
            allocated: Limit::new(modes.limit)?,
            mode: modes.page,
            cache,
        })
    }

    /// Returns the stash if it has the pages of a write of `pages` pages.
    fn cache(&self, pages: usize) -> Option<&PageStash> {
        self.cache.as_ref().filter(|_| self.mode.is_cached(pages))
    }

    /// Returns a page from the stash.
    fn cached_page(&self) -> Option<Page> {
        let page = self.cache.as_ref()?.get()?;
        self.share.0.stats.at::<CACHED_PAGES>().inc();
        Some(page)
    }

    /// Fills `slots` with pages from the stash, then from the page allocator. Returns their number.
    fn fill(&self, gfp: Gfp, slots: &mut [Option<Page>]) -> usize {
        let stats = &self.share.0.stats;
        let cached = self
            .cache(slots.len())
            .map_or(0, |cache| cache.get_bulk(slots));
        // CAST: From 64 to 64 bits.
        stats.at::<CACHED_PAGES>().add(cached as u64);

        let rest = slots.get_mut(cached..).unwrap_or_default();
        if rest.is_empty() {
            return cached;
        }
        let bulk = page::alloc_bulk(gfp, rest);
        // CAST: From 64 to 64 bits.
        stats.at::<BULK_PAGES>().add(bulk as u64);
        cached.saturating_add(bulk)
    }

    /// Charges `count` pages unless that exceeds the target's share. Returns whether they fit.
    fn try_charge(&self, count: usize) -> bool {
        let admitted = self.allocated.try_charge(count, self.share.limit_pages());

        if !admitted {
            self.share.0.stats.at::<REFUSALS>().inc();
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
            self.share.0.stats.at::<SINGLE_PAGES>().inc();
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
        if matches!(self.mode, PageMode::Single | PageMode::Compound)
            || !self.try_charge(slots.len())
        {
            return;
        }
        let count = self.fill(gfp, slots);
        self.allocated.uncharge(slots.len().saturating_sub(count));
    }

    fn free_bulk(&self, slots: &mut [Option<Page>]) {
        let count = slots.iter().flatten().count();

        if let Some(cache) = self.cache(slots.len()) {
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

        let compound_pages = self.share.0.stats.at::<COMPOUND_PAGES>();
        let limit = self.share.limit_pages();
        let gfp = match self.mode {
            PageMode::Compound => WAKING,
            _ => OPTIONAL,
        };
        let mut orders = self.mode.block_orders(max_order.get()).rev();
        orders.find_map(|order| {
            let count = 1 << order;
            if !self.allocated.try_charge(count, limit) {
                return None;
            }
            let block = CompoundPage::alloc(gfp, NonZeroU32::new(order)?);
            match block {
                Ok(_) => compound_pages.add(1 << order),
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
mod kunit;
