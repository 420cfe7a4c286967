// SPDX-License-Identifier: GPL-2.0

//! C compares the shared count of a local counter first, which is wrong, so it must not be compared.

use kscale::percpu::counter::LocalPerCpuCounter;

fn compares(counter: &LocalPerCpuCounter) -> core::cmp::Ordering {
    counter.compare(1)
}
