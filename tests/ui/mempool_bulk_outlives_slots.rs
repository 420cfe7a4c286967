// SPDX-License-Identifier: GPL-2.0

//! The pages of a bulk are in the caller's slots, which must outlive it.

use kernel::prelude::*;

use kscale::mempool::{
    Bulk,
    Mempool,
    PageAllocator, //
};

fn returns(pool: &Mempool<PageAllocator>) -> Result<Bulk<'_, PageAllocator>> {
    let mut slots = [const { None }; 4];
    pool.alloc_bulk(&mut slots)
}
