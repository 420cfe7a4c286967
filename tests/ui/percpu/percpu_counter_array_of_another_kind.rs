// SPDX-License-Identifier: GPL-2.0

//! What is not a counter cannot be in an array of counters, which are nothing else to C.

use kscale::percpu::counter::PerCpuCounterArray;

fn takes(_counters: &PerCpuCounterArray<2, i64>) {}
