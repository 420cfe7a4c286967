// SPDX-License-Identifier: GPL-2.0

//! The shared count of a local counter lacks almost everything, so it must not be read.

use kscale::percpu::counter::LocalPerCpuCounter;

fn reads(counter: &LocalPerCpuCounter) -> i64 {
    counter.read()
}
