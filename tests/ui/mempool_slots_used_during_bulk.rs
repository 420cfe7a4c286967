// SPDX-License-Identifier: GPL-2.0

//! The pages of a bulk must not be taken out of its slots, or the pool would miss them.

use kernel::prelude::*;

use kscale::{
    mempool::{
        Mempool,
        PageAllocator, //
    },
    page::Page, //
};

fn takes(pool: &Mempool<PageAllocator>, slots: &mut [Option<Page>]) -> Result<Option<Page>> {
    let bulk = pool.alloc_bulk(slots)?;
    let page = slots.iter_mut().find_map(Option::take);
    drop(bulk);
    Ok(page)
}
