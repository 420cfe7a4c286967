// SPDX-License-Identifier: GPL-2.0

//! A counter of an array is freed with the array, so it must not be used afterwards.

use kernel::prelude::*;

use kscale::percpu::counter::{
    PerCpuCounter,
    PerCpuCounterArray, //
};

fn keeps(counters: Pin<KBox<PerCpuCounterArray<2>>>) -> i64 {
    let [first, _]: &[PerCpuCounter; 2] = counters.as_array();
    drop(counters);
    first.sum()
}
