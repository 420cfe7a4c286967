// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page must not be borrowed any longer once it went back to the pool.

use kernel::prelude::*;

use kscale::{
    mempool::{
        Mempool,
        PageAllocator, //
    },
    page::Page, //
};

fn uses(
    pool: &Mempool<PageAllocator>,
    slots: &mut [Option<Page>],
    uses: fn(Option<&Page>),
) -> Result {
    let bulk = pool.alloc_bulk(slots)?;
    let page = bulk.pages().next();
    drop(bulk);
    uses(page);
    Ok(())
}
