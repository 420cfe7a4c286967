// SPDX-License-Identifier: GPL-2.0

//! C writes to the first counter of an array, so there has to be one.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounterArray;

pub fn allocates() -> Result<Pin<KBox<PerCpuCounterArray<0>>>> {
    KBox::try_pin_init(PerCpuCounterArray::new(0), GFP_KERNEL)
}
