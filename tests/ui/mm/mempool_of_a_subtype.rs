// SPDX-License-Identifier: GPL-2.0

//! A type and a subtype of it may both implement `Allocator`, with memory of different types. So a
//! pool of the subtype is no pool of the type.

#![allow(coherence_leak_check)]

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    mem::MaybeUninit, //
};

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Allocator,
        Mempool, //
    }, //
};

struct Typed<F>(PhantomData<F>);

type Subtype = Typed<for<'a> fn(&'a u8)>;
type Supertype = Typed<fn(&'static u8)>;

impl Allocator for Typed<for<'a> fn(&'a u8)> {
    type Memory = KBox<MaybeUninit<u64>>;

    fn alloc(&self, _gfp: Gfp) -> Option<Self::Memory> {
        None
    }

    fn free(&self, memory: Self::Memory) {
        drop(memory);
    }
}

impl Allocator for Typed<fn(&'static u8)> {
    type Memory = KBox<MaybeUninit<[u64; 64]>>;

    fn alloc(&self, _gfp: Gfp) -> Option<Self::Memory> {
        None
    }

    fn free(&self, memory: Self::Memory) {
        drop(memory);
    }
}

fn coerces(pool: &Mempool<Subtype>) -> &Mempool<Supertype> {
    pool
}
