// SPDX-License-Identifier: GPL-2.0

//! Calls of `percpu`.

use kernel::{
    cpu::CpuId,
    debugfs::ScopedDir,
    fmt,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::cell::Cell;

use kscale::percpu::{
    preempt_disable,
    with_interrupts_disabled,
    PerCpu,
    PerCpuInts, //
};

#[repr(C)]
pub(crate) struct Bench {
    ints: PerCpuInts<u64, 2>,
    cells: PerCpu<Cell<u64>>,
    atomics: PerCpu<Atomic<u64>>,
    cpu: CpuId,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            ints: PerCpuInts::new()?,
            cells: PerCpu::new(|_| Ok(Cell::new(0)))?,
            atomics: PerCpu::new(|_| Ok(Atomic::new(0)))?,
            cpu: CpuId::current(),
        })
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"this_cpu_add" => |b| b.ints.at::<1>().add(3),
        c"this_cpu_inc" => |b| b.ints.at::<1>().inc(),
        c"this_cpu_read" => |b| b.ints.at::<1>().this_cpu(),
        c"per_cpu_sum" => |b| b.ints.at::<1>().sum(),
        c"preempt_disable" => |_| drop(preempt_disable()),
        c"local_interrupt_disable" => |_| with_interrupts_disabled(|_| ()),
        c"this_cpu_ptr_irqs_off" => add_with_interrupts_off,
        c"raw_cpu_ptr" => |b| b.atomics.raw_cpu().load(Relaxed),
        c"get_cpu_ptr" => |b| b.atomics.get_cpu().load(Relaxed),
        c"per_cpu_ptr" => |b| b.atomics.per_cpu(b.cpu).map(|value| value.load(Relaxed)).unwrap_or(0),
    }
}

fn add_with_interrupts_off(bench: &Bench) {
    with_interrupts_disabled(|interrupts_off| {
        let cell = bench.cells.this_cpu(interrupts_off);
        cell.set(cell.get().wrapping_add(3));
    });
}
