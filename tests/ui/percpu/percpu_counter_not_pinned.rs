// SPDX-License-Identifier: GPL-2.0

//! C links counters into a list, so one must be pinned before it exists.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounter;

fn creates() -> PerCpuCounter {
    PerCpuCounter::new(0)
}
