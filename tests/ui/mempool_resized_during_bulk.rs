// SPDX-License-Identifier: GPL-2.0

//! A pool must not shrink below a bulk, or that would wait for ever for the rest.

use kernel::prelude::*;

use kscale::{
    mempool::{
        Bulk,
        Mempool,
        PageAllocator, //
    },
    page::Page, //
};

fn resizes(
    mut pool: Pin<KBox<Mempool<PageAllocator>>>,
    slots: &mut [Option<Page>],
    uses: fn(Bulk<'_, PageAllocator>),
) -> Result {
    let bulk = pool.alloc_bulk(slots)?;
    pool.as_mut().resize(1)?;
    uses(bulk);
    Ok(())
}
