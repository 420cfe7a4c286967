// SPDX-License-Identifier: GPL-2.0

//! A value that is not `Sync` must not be read while its CPU may write it.

use kernel::cpu::CpuId;

use core::cell::Cell;

use kscale::percpu::PerCpu;

fn sums(cells: &PerCpu<Cell<u64>>) -> u64 {
    cells.iter().map(|(_, cell)| cell.get()).sum()
}

fn reads(cells: &PerCpu<Cell<u64>>, cpu: CpuId) -> Option<u64> {
    cells.per_cpu(cpu).map(Cell::get)
}
