// SPDX-License-Identifier: GPL-2.0

//! A pool may be dropped by any task, so its allocator must be [`Send`].

use kernel::sync::MutexGuard;

use kscale::mm::{
    gfp::Gfp,
    mempool::Allocator,
    page::Page, //
};

struct Counting {
    _guard: MutexGuard<'static, u64>,
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
