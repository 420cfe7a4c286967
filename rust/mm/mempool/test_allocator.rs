// SPDX-License-Identifier: GPL-2.0

//! An allocator for tests, which counts its pages and fails when told to.

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
    Counted,
    Mempool, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        page::Page, //
    }, //
};

/// What a [`ByLedger`] allocator does and did, for after it is gone.
pub(super) struct Ledger {
    live: Atomic<usize>,
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
            calls_outside_noio: Atomic::new(0),
            refuses: Atomic::new(0),
            gap: Atomic::new(0),
            bulk_limit: Atomic::new(usize::MAX),
            reserve_limit: Atomic::new(usize::MAX),
        };
        Ok(Arc::new(ledger, GFP_KERNEL)?)
    }

    /// Returns how many pages are allocated and not freed.
    pub(super) fn live(&self) -> usize {
        self.live.load(Relaxed)
    }

    /// Returns how many calls for pages came from outside a NOIO scope.
    pub(super) fn calls_outside_noio(&self) -> usize {
        self.calls_outside_noio.load(Relaxed)
    }

    /// Refuses single pages to who can do without, as an allocator above its limit does.
    pub(super) fn refuse(&self) {
        self.refuses.store(1, Relaxed);
    }

    /// Leaves the first slot of every bulk empty.
    pub(super) fn leave_gap(&self) {
        self.gap.store(1, Relaxed);
    }

    /// Puts at most `pages` pages into a bulk.
    pub(super) fn limit_bulk(&self, pages: usize) {
        self.bulk_limit.store(pages, Relaxed);
    }

    /// Has no more than `pages` pages in all for who cannot do without.
    pub(super) fn limit_reserve(&self, pages: usize) {
        self.reserve_limit.store(pages, Relaxed);
    }

    fn page(&self, gfp: Gfp) -> Option<Page> {
        // SAFETY: `get_current()` has no preconditions.
        let task = unsafe { bindings::get_current() };
        // SAFETY: The current task exists while it runs, and no other task writes its flags.
        let flags = unsafe { (*task).flags };
        if flags & bindings::PF_MEMALLOC_NOIO == 0 {
            self.calls_outside_noio.add(1, Relaxed);
        }

        let page = Page::alloc(gfp).ok()?;
        self.live.add(1, Relaxed);
        Some(page)
    }
}

/// The page allocator, by the rules of a [`Ledger`].
pub(super) struct ByLedger(Arc<Ledger>);

/// The same with statistics.
pub(super) type Counting = Counted<ByLedger>;

/// Allocates by the rules of `ledger`.
pub(super) fn counting(ledger: &Arc<Ledger>) -> impl PinInit<Counting, Error> {
    Counted::new(ByLedger(ledger.clone()))
}

/// Creates a pool that allocates by the rules of `ledger`.
pub(super) fn counting_pool(
    min_nr: usize,
    ledger: &Arc<Ledger>,
) -> Result<Pin<KBox<Mempool<Counting>>>> {
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

        if refused {
            None
        } else {
            self.0.page(gfp)
        }
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
    }
}
