// SPDX-License-Identifier: GPL-2.0

//! Pages go back to the pool that they are from, so they must not outlive that.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::mm::{
    mempool::{
        Bulk,
        Mempool,
        Pages, //
    },
    page::Page, //
};

fn drops_pool(
    pool: Pin<KBox<Mempool<Pages>>>,
    slots: &mut [MaybeUninit<Page>],
    uses: fn(Result<Bulk<'_, Pages>>),
) {
    let bulk = pool.alloc_bulk(slots);
    drop(pool);
    uses(bulk);
}
