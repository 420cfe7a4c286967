// SPDX-License-Identifier: GPL-2.0

//! Callbacks do not have their value for themselves.

use kernel::{
    cpu::CpuId,
    prelude::*, //
};

use kscale::percpu::hotplug::Callbacks;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count(u32);

#[vtable]
impl Callbacks for Count {
    fn offline(&mut self, _: CpuId) {
        self.0 += 1;
    }
}
