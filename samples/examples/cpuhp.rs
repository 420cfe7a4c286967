// SPDX-License-Identifier: GPL-2.0

//! Keeps a few credits on every CPU, and returns them when the CPU goes offline.

use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use kscale::percpu::{
    hotplug::{
        Callbacks,
        Registration, //
    },
    PerCpu, //
};

const CREDITS_PER_CPU: i64 = 16;

struct Credits {
    shared: Atomic<i64>,
    /// A CPU takes credits from here first, so other CPUs seldom access it.
    of_cpu: PerCpu<Atomic<i64>>,
}

#[vtable]
impl Callbacks for Credits {
    fn online(&self, cpu: CpuId) -> Result {
        let credits = self.of_cpu.per_cpu(cpu).ok_or(ENODEV)?;
        credits.add(CREDITS_PER_CPU, Relaxed);
        self.shared.add(-CREDITS_PER_CPU, Relaxed);
        Ok(())
    }

    fn offline(&self, cpu: CpuId) {
        if let Some(credits) = self.of_cpu.per_cpu(cpu) {
            self.shared.add(credits.xchg(0, Relaxed), Relaxed);
        }
    }
}

pub(crate) fn example() -> Result {
    let credits = Arc::new(
        Credits {
            shared: Atomic::new(1000),
            of_cpu: PerCpu::new(|_cpu| Ok(Atomic::new(0)))?,
        },
        GFP_KERNEL,
    )?;

    // Calls `online()` for all online CPUs. A module stores the registration in its state.
    let registration = Registration::new(credits.clone())?;
    pr_info!("{} credits left for all\n", credits.shared.load(Relaxed));

    // Calls `offline()` for all online CPUs.
    drop(registration);
    pr_info!("{} credits again\n", credits.shared.load(Relaxed));
    Ok(())
}
