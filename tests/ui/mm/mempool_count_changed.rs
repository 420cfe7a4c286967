// SPDX-License-Identifier: GPL-2.0

//! What a cache counts tells whether it may be destroyed, so only its pools may change that.

use core::mem::MaybeUninit;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Mempool,
        RawElement,
        Slab,
        Source, //
    },
    slab::Cache, //
};

fn changes<'a>(pool: &Mempool<Slab<&'a Cache<u64>>>, slots: &mut [MaybeUninit<RawElement<u64>>]) {
    pool.source().taken(usize::MAX);
    pool.source().returned(1);
    pool.source().alloc_bulk(Gfp::NOWAIT, slots);
}
