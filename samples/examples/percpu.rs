// SPDX-License-Identifier: GPL-2.0

//! Counts events without sharing a cache line, and stores the last event of each CPU.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

use core::cell::Cell;

use kscale::percpu::{
    with_interrupts_disabled,
    PerCpu,
    PerCpuInts, //
};

/// Indices of the integers.
const IN_FLIGHT: usize = 0;
const BYTES: usize = 1;

struct Events {
    counts: PerCpuInts<u64, 2>,
    /// A `Cell` allows one access at a time.
    last_bytes: PerCpu<Cell<u64>>,
    /// The last errors, which other CPUs may read.
    errors: PerCpu<SpinLock<Option<Error>>>,
}

impl Events {
    fn new() -> Result<Self> {
        Ok(Self {
            counts: PerCpuInts::new()?,
            last_bytes: PerCpu::new(|_cpu| Ok(Cell::new(0)))?,
            errors: PerCpu::pin_init(|_cpu| new_spinlock!(None))?,
        })
    }

    /// Counts the start of an event. Tasks and interrupts may call this concurrently.
    ///
    /// Context: Any context. Never sleeps.
    fn start(&self, bytes: u64) {
        self.counts.at::<IN_FLIGHT>().inc();
        self.counts.at::<BYTES>().add(bytes);

        with_interrupts_disabled(|interrupts_off| {
            self.last_bytes.this_cpu(interrupts_off).set(bytes);
        });
    }

    /// Counts the end of an event, maybe on another CPU: only the sum of all CPUs has a meaning.
    ///
    /// Context: Process context. Never sleeps.
    fn end(&self, bytes: u64, result: Result) {
        self.counts.at::<IN_FLIGHT>().dec();
        if let Err(error) = result {
            self.counts.at::<BYTES>().sub(bytes);
            // The task may migrate meanwhile: the lock protects the value of any CPU.
            *self.errors.raw_cpu().lock() = Some(error);
        }
    }
}

pub(crate) fn example() -> Result {
    let mut events = Events::new()?;

    events.start(512);
    events.start(4096);
    events.end(512, Ok(()));
    events.end(4096, Err(EIO));

    let bytes = events.counts.at::<BYTES>();
    for (cpu, of_cpu) in bytes.iter().filter(|(_, of_cpu)| *of_cpu != 0) {
        let in_flight = events.counts.at::<IN_FLIGHT>().per_cpu(cpu);
        pr_info!(
            "{of_cpu} of {} bytes on CPU {}, {in_flight:?} in flight\n",
            bytes.sum(),
            cpu.as_u32()
        );
    }
    // Exclusive access to the variable gives access to the cells of all CPUs.
    for (cpu, last) in events.last_bytes.iter_mut() {
        pr_info!("last on CPU {}: {} bytes\n", cpu.as_u32(), last.get());
    }
    Ok(())
}
