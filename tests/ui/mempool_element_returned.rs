// SPDX-License-Identifier: GPL-2.0

//! A page must not leave the function that has the pool.

use kernel::prelude::*;

use kscale::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        PageAllocator, //
    }, //
};

fn returns<'a>(pool: Pin<KBox<Mempool<PageAllocator>>>) -> Result<Element<'a, PageAllocator>> {
    pool.alloc(Gfp::NOIO)
}
