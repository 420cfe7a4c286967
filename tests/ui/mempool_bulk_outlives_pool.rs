// SPDX-License-Identifier: GPL-2.0

//! Pages go back to the pool that they are from, so they must not outlive that.

use kernel::prelude::*;

use kscale::{
    mempool::{
        Bulk,
        Mempool,
        PageAllocator, //
    },
    page::Page, //
};

fn drops_pool(
    pool: Pin<KBox<Mempool<PageAllocator>>>,
    slots: &mut [Option<Page>],
    uses: fn(Result<Bulk<'_, PageAllocator>>),
) {
    let bulk = pool.alloc_bulk(slots);
    drop(pool);
    uses(bulk);
}
