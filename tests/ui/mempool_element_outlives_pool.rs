// SPDX-License-Identifier: GPL-2.0

//! A page goes back to the pool that it is from, so it must not outlive that.

use kernel::prelude::*;

use kscale::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        PageAllocator, //
    }, //
};

fn drops_pool(
    pool: Pin<KBox<Mempool<PageAllocator>>>,
    uses: fn(Result<Element<'_, PageAllocator>>),
) {
    let element = pool.alloc(Gfp::NOIO);
    drop(pool);
    uses(element);
}
