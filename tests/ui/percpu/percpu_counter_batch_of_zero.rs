// SPDX-License-Identifier: GPL-2.0

//! A batch of 0 means nothing, so it must not be passed.

use kscale::percpu::counter::PerCpuCounter;

fn adds(counter: &PerCpuCounter) {
    counter.add_batch(1, 0);
}
