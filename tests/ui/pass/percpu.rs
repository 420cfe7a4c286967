// SPDX-License-Identifier: GPL-2.0

//! Per-CPU data, reached in every way there is.

use kernel::{
    cpu::CpuId,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        SpinLock, //
    }, //
};

use core::cell::Cell;

use kscale::percpu::{
    preempt_disable,
    with_interrupts_disabled,
    PerCpu,
    PerCpuInts, //
};

/// A value that one at a time may touch.
pub fn cell() -> Result<u64> {
    let mut cells = PerCpu::new(|_| Ok(Cell::new(0)))?;
    with_interrupts_disabled(|proof| cells.this_cpu(proof).set(1));
    Ok(cells.iter_mut().map(|(_, cell)| cell.get()).sum())
}

/// A value that any number may touch.
pub fn atomic(cpu: CpuId) -> Result<Option<u64>> {
    let atomics = PerCpu::new(|_| Ok(Atomic::new(0_u64)))?;
    let preemption = preempt_disable();
    atomics.raw_cpu().add(1, Relaxed);
    drop(preemption);
    atomics.get_cpu().add(1, Relaxed);
    Ok(atomics.per_cpu(cpu).map(|atomic| atomic.load(Relaxed)))
}

/// A value that cannot be moved.
pub fn lock() -> Result<PerCpu<SpinLock<u64>>> {
    PerCpu::pin_init(|cpu| new_spinlock!(u64::from(cpu.as_u32())))
}

/// The largest and the most aligned value.
pub fn pages() -> Result<PerCpu<Aligned>> {
    PerCpu::new(|_| Ok(Aligned([0; 4096])))
}

#[repr(align(4096))]
pub struct Aligned([u8; 4096]);

/// Integers.
pub fn ints(index: usize) -> Result<i64> {
    let ints = PerCpuInts::<i64, 3>::new()?;
    ints.at::<2>().dec();
    Ok(ints.get(index).map_or(0, |int| int.sum()))
}
