// SPDX-License-Identifier: GPL-2.0

//! Counts CPU hotplug events, for tests of `kscale::percpu::hotplug`.
//!
//! `/sys/kernel/debug/cpuhp_probe/cpus` has a line for each possible CPU: the number of times that
//! it came online, and that it went offline.

#![forbid(unsafe_code)]

use kernel::{
    cpu::CpuId,
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use kscale::{
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    percpu::{
        hotplug::{
            Callbacks,
            Registration, //
        },
        PerCpu, //
    }, //
};

module! {
    type: ProbeModule,
    name: "cpuhp_probe",
    authors: ["The kscale authors"],
    description: "CPU hotplug callbacks for tests of the library",
    license: "GPL",
    params: {
        refuse: i32 {
            default: -1,
            description: "The CPU that must not come online",
        },
        leak: bool {
            default: false,
            description: "Leak the registration",
        },
    },
}

/// The number of times that a CPU came online and went offline.
struct Calls {
    online: Atomic<u32>,
    offline: Atomic<u32>,
}

struct Probe(PerCpu<Calls>);

impl Probe {
    fn count(&self, cpu: CpuId, which: fn(&Calls) -> &Atomic<u32>) {
        // The callback must run on the CPU that it is called for.
        if cpu != CpuId::current() {
            pr_err!(
                "CPU {} called for CPU {}\n",
                CpuId::current().as_u32(),
                cpu.as_u32()
            );
        }
        if let Some(calls) = self.0.per_cpu(cpu) {
            which(calls).add(1, Relaxed);
        }
    }
}

#[vtable]
impl Callbacks for Probe {
    fn online(&self, cpu: CpuId) -> Result {
        if i32::from(cpu) == module_parameters::refuse.value() {
            return Err(EPERM);
        }
        self.count(cpu, |calls| &calls.online);
        Ok(())
    }

    fn offline(&self, cpu: CpuId) {
        self.count(cpu, |calls| &calls.offline);
    }
}

#[vtable]
impl Files for Probe {
    const FILES: &'static [File<Self>] = &[File::read_only(c"cpus", Self::show)];
}

impl Probe {
    /// Writes a line for each CPU.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (cpu, calls) in self.0.iter() {
            let (online, offline) = (calls.online.load(Relaxed), calls.offline.load(Relaxed));
            writeln!(f, "{} {online} {offline}", cpu.as_u32())?;
        }
        Ok(())
    }
}

struct ProbeModule {
    _registration: Option<Registration<Probe>>,
    _files: Dir<Probe>,
}

impl kernel::Module for ProbeModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let calls = PerCpu::new(|_| {
            Ok(Calls {
                online: Atomic::new(0),
                offline: Atomic::new(0),
            })
        })?;
        let probe = Arc::new(Probe(calls), GFP_KERNEL)?;
        let mut registration = Some(Registration::new(probe.clone())?);
        if module_parameters::leak.value() {
            core::mem::forget(registration.take());
        }

        Ok(Self {
            _registration: registration,
            _files: Dir::new(c"cpuhp_probe", probe)?,
        })
    }
}
