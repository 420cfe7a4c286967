// SPDX-License-Identifier: GPL-2.0

//! Callbacks run while others have the same value, so it must be `Sync`.

use kernel::{
    cpu::CpuId,
    prelude::*, //
};

use core::cell::Cell;

use kscale::percpu::hotplug::Callbacks;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count(Cell<u32>);

#[vtable]
impl Callbacks for Count {
    fn offline(&self, _: CpuId) {
        self.0.set(self.0.get() + 1);
    }
}
