// SPDX-License-Identifier: GPL-2.0

//! The elements of a bulk are in its slots, so those must not be written to meanwhile.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::mm::{
    mempool::{
        Mempool,
        Pages, //
    },
    page::Page, //
};

fn writes(pool: &Mempool<Pages>, slots: &mut [MaybeUninit<Page>]) -> Result {
    let bulk = pool.alloc_bulk(slots)?;
    slots.fill_with(MaybeUninit::uninit);
    drop(bulk);
    Ok(())
}
