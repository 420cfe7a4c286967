// SPDX-License-Identifier: GPL-2.0

//! A pool allocates on all CPUs at once, so its allocator must be [`Sync`].

use core::cell::Cell;

use kscale::mm::{
    gfp::Gfp,
    mempool::Allocator,
    page::Page, //
};

struct Counting {
    _live: Cell<usize>,
}

impl Allocator for Counting {
    type Memory = Page;

    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        Page::alloc(gfp).ok()
    }

    fn free(&self, page: Page) {
        drop(page);
    }
}
