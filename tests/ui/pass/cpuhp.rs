// SPDX-License-Identifier: GPL-2.0

//! CPU hotplug callbacks, registered and not any more.

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

use kscale::percpu::hotplug::{
    Callbacks,
    Registration, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

struct Count(Atomic<u32>);

#[vtable]
impl Callbacks for Count {
    fn online(&self, _: CpuId) -> Result {
        self.0.add(1, Relaxed);
        Ok(())
    }

    fn offline(&self, _: CpuId) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Returns the number of CPUs that were online, and what is left of it.
pub fn count() -> Result<(u32, u32)> {
    let count = Arc::new(Count(Atomic::new(0)), GFP_KERNEL)?;
    let registration = Registration::new(count.clone())?;
    let online = count.0.load(Relaxed);
    drop(registration);
    Ok((online, count.0.load(Relaxed)))
}
