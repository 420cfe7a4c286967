// SPDX-License-Identifier: GPL-2.0

//! A pool must not shrink below a bulk, or that would wait forever for the rest.

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

fn resizes(
    mut pool: Pin<KBox<Mempool<Pages>>>,
    slots: &mut [MaybeUninit<Page>],
    uses: fn(Bulk<'_, Pages>),
) -> Result {
    let bulk = pool.alloc_bulk(slots)?;
    pool.as_mut().resize(1)?;
    uses(bulk);
    Ok(())
}
