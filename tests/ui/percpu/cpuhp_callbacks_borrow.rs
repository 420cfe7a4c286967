// SPDX-License-Identifier: GPL-2.0

//! Callbacks may be leaked, so they must not borrow what may go before.

use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use kscale::percpu::hotplug::Callbacks;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count<'a>(&'a Atomic<u32>);

#[vtable]
impl Callbacks for Count<'static> {
    fn offline(&self, _: CpuId) {
        self.0.add(1, Relaxed);
    }
}

fn takes(_: impl Callbacks) {}

fn borrows(number: &Atomic<u32>) {
    takes(Count(number));
}
