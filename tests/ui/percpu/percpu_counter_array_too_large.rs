// SPDX-License-Identifier: GPL-2.0

//! A per-CPU allocation has room for so many counters, and C warns of more.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounterArray;

pub fn allocates() -> Result<Pin<KBox<PerCpuCounterArray<8193>>>> {
    KBox::try_pin_init(PerCpuCounterArray::new(0), GFP_KERNEL)
}
