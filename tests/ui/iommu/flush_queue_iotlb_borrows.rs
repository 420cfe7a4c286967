// SPDX-License-Identifier: GPL-2.0

//! A queue that is leaked goes on to flush, when what was borrowed has gone.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use kscale::iommu::iova::flush_queue::Iotlb;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count<'a>(&'a Atomic<u32>);

#[vtable]
impl Iotlb for Count<'static> {
    fn flush_all(&self) {
        self.0.add(1, Relaxed);
    }
}

fn takes(_: impl Iotlb) {}

fn borrows(number: &Atomic<u32>) {
    takes(Count(number));
}
