// SPDX-License-Identifier: GPL-2.0

//! C links counters into a list, so one must not move.

use kernel::prelude::*;

use kscale::percpu::counter::PerCpuCounter;

fn moves(counter: Pin<KBox<PerCpuCounter>>) -> PerCpuCounter {
    *Pin::into_inner(counter)
}
