// SPDX-License-Identifier: GPL-2.0

//! Setting a counter may lose an update, so nobody else must have it.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounter;

fn sets(counter: Pin<&PerCpuCounter>) {
    PerCpuCounter::set(counter, 0);
}
