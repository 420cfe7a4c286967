// SPDX-License-Identifier: GPL-2.0

//! An integer that is not there cannot be named.

use kscale::percpu::PerCpuInts;

pub fn fourth(ints: &PerCpuInts<u64, 3>) -> u64 {
    ints.at::<3>().sum()
}
