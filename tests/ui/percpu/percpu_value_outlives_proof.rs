// SPDX-License-Identifier: GPL-2.0

//! What interrupts are off for must not be kept when they are on again.

use core::cell::Cell;

use kscale::percpu::{
    local_interrupt_disable,
    PerCpu, //
};

fn keeps(cells: &PerCpu<Cell<u64>>) {
    let proof = local_interrupt_disable();
    let cell = cells.this_cpu(&proof);
    drop(proof);
    cell.set(1);
}

fn returns(cells: &PerCpu<Cell<u64>>) -> &Cell<u64> {
    cells.this_cpu(&local_interrupt_disable())
}

fn leaks(cells: &PerCpu<Cell<u64>>) {
    let proof = local_interrupt_disable();
    let cell = cells.this_cpu(&proof);
    core::mem::forget(proof);
    cell.set(1);
}
