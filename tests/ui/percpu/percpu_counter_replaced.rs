// SPDX-License-Identifier: GPL-2.0

//! A counter must not be exchanged for another one in place.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounter;

fn swaps(first: Pin<&mut PerCpuCounter>, second: Pin<&mut PerCpuCounter>) {
    core::mem::swap(first.get_mut(), second.get_mut());
}
