// SPDX-License-Identifier: GPL-2.0

//! CPUs flush at once, so what they flush must be `Sync`.

use kernel::prelude::*;

use core::cell::Cell;

use kscale::iommu::iova::flush_queue::Iotlb;

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count(Cell<u32>);

#[vtable]
impl Iotlb for Count {
    fn flush_all(&self) {
        self.0.set(self.0.get() + 1);
    }
}
