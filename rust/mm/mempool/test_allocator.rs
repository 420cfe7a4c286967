// SPDX-License-Identifier: GPL-2.0

//! An allocator for tests that counts its pages and fails on request.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
    },
};

use super::{
    Allocator,
    Mempool, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        page::Page, //
    }, //
};

/// The settings and counters of a [`ByLedger`] allocator, readable after the allocator is dropped.
pub(super) struct Ledger {
    live: Atomic<usize>,
    taken: Atomic<u64>,
    bulk: Atomic<u64>,
    single: Atomic<u64>,
    calls_outside_noio: Atomic<usize>,
    refuses: Atomic<usize>,
    gap: Atomic<usize>,
    bulk_limit: Atomic<usize>,
    reserve_limit: Atomic<usize>,
}

impl Ledger {
    pub(super) fn new() -> Result<Arc<Self>> {
        let ledger = Self {
            live: Atomic::new(0),
            taken: Atomic::new(0),
            bulk: Atomic::new(0),
            single: Atomic::new(0),
            calls_outside_noio: Atomic::new(0),
            refuses: Atomic::new(0),
            gap: Atomic::new(0),
            bulk_limit: Atomic::new(usize::MAX),
            reserve_limit: Atomic::new(usize::MAX),
        };
        Ok(Arc::new(ledger, GFP_KERNEL)?)
    }

    /// Returns the number of allocated pages.
    pub(super) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Returns the number of page allocations outside a NOIO scope.
    pub(super) fn calls_outside_noio(&self) -> usize {
        self.calls_outside_noio.load(Relaxed)
    }

    /// Fails single allocations with [`Gfp::NORETRY`], as an allocator above its limit does.
    pub(super) fn refuse(&self) {
        self.refuses.store(1, Relaxed);
    }

    /// Leaves the first slot of every bulk empty.
    pub(super) fn leave_gap(&self) {
        self.gap.store(1, Relaxed);
    }

    /// Limits each bulk allocation to `pages` pages.
    pub(super) fn limit_bulk(&self, pages: usize) {
        self.bulk_limit.store(pages, Relaxed);
    }

    /// Fails allocations without [`Gfp::NORETRY`] while `pages` pages or more are allocated.
    pub(super) fn limit_reserve(&self, pages: usize) {
        self.reserve_limit.store(pages, Relaxed);
    }

    fn page(&self, gfp: Gfp) -> Option<Page> {
        // SAFETY: `get_current()` has no preconditions.
        let task = unsafe { bindings::get_current() };
        // SAFETY: The current task exists while it runs, and only it writes its flags.
        let flags = unsafe { (*task).flags };
        if flags & bindings::PF_MEMALLOC_NOIO == 0 {
            self.calls_outside_noio.add(1, Relaxed);
        }

        let page = Page::alloc(gfp).ok()?;
        self.live.add(1, Relaxed);
        Some(page)
    }
}

/// The page allocator, with the settings of a [`Ledger`].
pub(super) struct ByLedger(Arc<Ledger>);

/// The number of elements that a pool has handed out, by origin.
#[derive(PartialEq, Eq)]
pub(super) struct Stats {
    /// Elements from [`Allocator::alloc_bulk`].
    pub(super) bulk: u64,
    /// Elements from [`Allocator::alloc`].
    pub(super) single: u64,
    /// Elements from the reserve.
    pub(super) reserve: u64,
}

impl ByLedger {
    pub(super) fn stats(&self) -> Stats {
        let bulk = self.0.bulk.load(Relaxed);
        let single = self.0.single.load(Relaxed);

        Stats {
            bulk,
            single,
            reserve: self.0.taken.load(Relaxed) - bulk - single,
        }
    }
}

/// Creates an allocator with the settings of `ledger`.
pub(super) fn counting(ledger: &Arc<Ledger>) -> ByLedger {
    ByLedger(ledger.clone())
}

/// Creates a pool whose allocator has the settings of `ledger`.
pub(super) fn counting_pool(
    min_nr: usize,
    ledger: &Arc<Ledger>,
) -> Result<Pin<KBox<Mempool<ByLedger>>>> {
    KBox::pin_init(Mempool::new(min_nr, counting(ledger)), GFP_KERNEL)
}

impl Allocator for ByLedger {
    type Memory = Page;

    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        let refused = if gfp.contains(Gfp::NORETRY) {
            self.0.refuses.load(Relaxed) != 0
        } else {
            self.0.live() >= self.0.reserve_limit.load(Relaxed)
        };

        let page = if refused { None } else { self.0.page(gfp) };
        // `mempool_adjust_gfp()` in `mm/mempool.c` sets the flag, except to fill the reserve.
        if page.is_some() && gfp.contains(Gfp::NORETRY) {
            self.0.single.add(1, Relaxed);
        }
        page
    }

    fn free(&self, page: Page) {
        drop(page);
        self.0.live.fetch_sub(1, Relaxed);
    }

    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Page>]) {
        slots
            .iter_mut()
            .skip(self.0.gap.load(Relaxed))
            .take(self.0.bulk_limit.load(Relaxed))
            .for_each(|slot| *slot = self.0.page(gfp));
        let count = slots.iter().take_while(|slot| slot.is_some()).count();
        self.0.bulk.add(count as u64, Relaxed);
    }

    fn taken(&self, count: usize) {
        self.0.taken.add(count as u64, Relaxed);
    }
}
