// SPDX-License-Identifier: GPL-2.0

//! A pool uses its allocator until it is gone, so what that borrows must be there.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Allocator,
        Mempool, //
    },
    page::Page, //
};

struct Limited<'l>(&'l usize);

impl Allocator for Limited<'_> {
    type Memory = Page;

    fn alloc(&self, gfp: Gfp) -> Option<Page> {
        Page::alloc(gfp).ok().filter(|_| *self.0 > 0)
    }

    fn free(&self, page: Page) {
        drop(page);
    }
}

fn drops_limit_first() -> Result {
    let _pool;
    let limit = 1;
    _pool = KBox::pin_init(Mempool::new(1, Limited(&limit)), GFP_KERNEL)?;
    Ok(())
}
