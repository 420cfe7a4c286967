// SPDX-License-Identifier: GPL-2.0

//! Where the pages of a memory pool come from.

use crate::{
    gfp::Gfp,
    page::{
        self,
        Page, //
    },
};

/// Where a [`Mempool`](super::Mempool) gets its pages while there are some.
///
/// Calls run concurrently. The pool holds no lock meanwhile.
pub trait Allocator: Send + Sync {
    /// Allocates a page.
    ///
    /// `gfp` has [`Gfp::NORETRY`] if the pool can do without the page: it then takes one from its
    /// reserve, or waits. An allocator with a limit of its own checks it in that case only, as the
    /// pool also fills its reserve from here, once and without the flag.
    ///
    /// Context: that of the pool's caller. Must not sleep unless `gfp` allows it.
    fn alloc(&self, gfp: Gfp) -> Option<Page>;

    /// Frees a page.
    ///
    /// Context: any but NMI, whatever the context of its allocation. Must not sleep.
    fn free(&self, page: Page);

    /// Puts pages into `slots`, which are empty, from the first on.
    ///
    /// `gfp` has [`Gfp::NORETRY`]: the pool gets the rest from [`alloc`](Self::alloc) and from its
    /// reserve. It gives pages behind an empty slot back. The default leaves all slots empty.
    ///
    /// Context: that of the pool's caller. Must not sleep unless `gfp` allows it.
    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Page>]) {
        let _ = (gfp, slots);
    }

    /// Frees the pages in `slots`.
    ///
    /// The default calls [`free`](Self::free) for each.
    ///
    /// Context: as [`free`](Self::free).
    fn free_bulk(&self, slots: &mut [Option<Page>]) {
        slots
            .iter_mut()
            .filter_map(Option::take)
            .for_each(|page| self.free(page));
    }
}

/// The page allocator, without a limit.
pub struct PageAllocator;

impl Allocator for PageAllocator {
    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        Page::alloc(gfp).ok()
    }

    fn free(&self, page: Page) {
        drop(page);
    }

    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Page>]) {
        page::alloc_bulk(gfp, slots);
    }
}
