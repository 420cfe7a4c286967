// SPDX-License-Identifier: GPL-2.0

//! A value that is not `Sync` must not be touched with interrupts on, nor with preemption off only.

use core::cell::Cell;

use kscale::percpu::{
    preempt_disable,
    PerCpu, //
};

fn touches(cells: &PerCpu<Cell<u64>>) {
    cells.raw_cpu().set(1);
}

fn stays(cells: &PerCpu<Cell<u64>>) {
    cells.get_cpu().set(1);
}

fn proves_too_little(cells: &PerCpu<Cell<u64>>) {
    cells.this_cpu(&preempt_disable()).set(1);
}
