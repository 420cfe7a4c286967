// SPDX-License-Identifier: GPL-2.0

//! A per-CPU allocation has room for so many counters, and C warns of more.

use kernel::prelude::*;

use kscale::percpu_counter::{
    new_percpu_counter_array,
    PerCpuCounterArray, //
};

pub fn allocates() -> Result<Pin<KBox<PerCpuCounterArray<8193>>>> {
    KBox::try_pin_init(new_percpu_counter_array!(0), GFP_KERNEL)
}
