// SPDX-License-Identifier: GPL-2.0

//! The slots of a bulk are for the memory of one source only.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::mm::{
    mempool::{
        Kmalloc,
        Mempool, //
    },
    page::Page, //
};

fn takes(pool: &Mempool<Kmalloc<u64>>, slots: &mut [MaybeUninit<Page>]) -> Result {
    pool.alloc_bulk(slots).map(drop)
}
