// SPDX-License-Identifier: GPL-2.0

//! Integers are those that C updates by one instruction, and no type of one's own.

use kscale::percpu::{
    Int,
    PerCpuInts, //
};

struct Own(u64);

impl Int for Own {}

fn narrow(_: &PerCpuInts<u8, 1>) {}
