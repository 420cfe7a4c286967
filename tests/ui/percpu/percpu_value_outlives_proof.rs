// SPDX-License-Identifier: GPL-2.0

//! What interrupts are off for must not be kept when they are on again.

use core::cell::Cell;

use kscale::percpu::{
    with_interrupts_disabled,
    PerCpu, //
};

fn keeps(cells: &PerCpu<Cell<u64>>) {
    let mut kept = None;
    with_interrupts_disabled(|proof| kept = Some(cells.this_cpu(proof)));
    kept.unwrap().set(1);
}

fn returns(cells: &PerCpu<Cell<u64>>) -> &Cell<u64> {
    with_interrupts_disabled(|proof| cells.this_cpu(proof))
}
