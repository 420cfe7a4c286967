// SPDX-License-Identifier: GPL-2.0

//! A type and a subtype of it may both implement `Iotlb`. So a queue that flushes by the subtype does not
//! flush by the type.

#![allow(coherence_leak_check)]

use kernel::prelude::*;

use core::marker::PhantomData;

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    CachedDomain, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Typed<F>(PhantomData<F>);

type Subtype = Typed<for<'a> fn(&'a u8)>;
type Supertype = Typed<fn(&'static u8)>;

#[vtable]
impl Iotlb for Typed<for<'a> fn(&'a u8)> {
    fn flush_all(&self) {}
}

#[vtable]
impl Iotlb for Typed<fn(&'static u8)> {
    fn flush_all(&self) {}
}

fn coerces(queue: &FlushQueue<CachedDomain, Subtype>) -> &FlushQueue<CachedDomain, Supertype> {
    queue
}
