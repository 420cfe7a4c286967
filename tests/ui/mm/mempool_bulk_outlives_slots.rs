// SPDX-License-Identifier: GPL-2.0

//! The pages of a bulk are in the caller's slots, which must outlive it.

use kernel::prelude::*;

use core::mem::MaybeUninit;

use kscale::mm::mempool::{
    Bulk,
    Mempool,
    Pages, //
};

fn returns(pool: &Mempool<Pages>) -> Result<Bulk<'_, Pages>> {
    let mut slots = [const { MaybeUninit::uninit() }; 4];
    pool.alloc_bulk(&mut slots)
}
