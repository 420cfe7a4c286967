// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page must not be borrowed any longer once it went back to the pool.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::mm::{
    mempool::{
        Mempool,
        Pages, //
    },
    page::Page, //
};

fn uses(
    pool: &Mempool<Pages>,
    slots: &mut [MaybeUninit<Page>],
    uses: fn(Option<&mut Page>),
) -> Result {
    let mut bulk = pool.alloc_bulk(slots)?;
    let page = bulk.pages_mut().next();
    drop(bulk);
    uses(page);
    Ok(())
}
