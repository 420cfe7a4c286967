// SPDX-License-Identifier: GPL-2.0

//! Counts events without sharing a cache line, and stores the last event of each CPU.

use kernel::prelude::*;

use core::cell::Cell;

use kscale::percpu::{
    local_interrupt_disable,
    PerCpu,
    PerCpuInts, //
};

/// Indices of the integers.
const EVENTS: usize = 0;
const BYTES: usize = 1;

struct Events {
    counts: PerCpuInts<u64, 2>,
    /// A `Cell` allows one access at a time.
    last_bytes: PerCpu<Cell<u64>>,
}

impl Events {
    fn new() -> Result<Self> {
        Ok(Self {
            counts: PerCpuInts::new()?,
            last_bytes: PerCpu::new(|_cpu| Ok(Cell::new(0)))?,
        })
    }

    /// Counts an event. Tasks and interrupts may call this concurrently.
    ///
    /// Context: Any context. Never sleeps.
    fn count(&self, bytes: u64) {
        self.counts.at::<EVENTS>().inc();
        self.counts.at::<BYTES>().add(bytes);

        let interrupts_off = local_interrupt_disable();
        self.last_bytes.this_cpu(&interrupts_off).set(bytes);
    }
}

pub(crate) fn example() -> Result {
    let mut events = Events::new()?;

    events.count(512);
    events.count(4096);

    let bytes = events.counts.at::<BYTES>();
    for (cpu, of_cpu) in bytes.iter().filter(|(_, of_cpu)| *of_cpu != 0) {
        pr_info!(
            "{of_cpu} of {} bytes on CPU {}\n",
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
