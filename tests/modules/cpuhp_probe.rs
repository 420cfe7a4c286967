// SPDX-License-Identifier: GPL-2.0

//! Counts CPU hotplug events, for tests of `kscale::percpu::hotplug`.
//!
//! `/sys/kernel/debug/cpuhp_probe/cpus` has a line for each possible CPU: the number of times that
//! it came online, and that it went offline.

#![forbid(unsafe_code)]

use kernel::{
    cpu::CpuId,
    debugfs,
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

use kscale::percpu::{
    hotplug::{
        Callbacks,
        Registration, //
    },
    PerCpu, //
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

/// Writes a line for each CPU.
fn write(probe: &Arc<Probe>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (cpu, calls) in probe.0.iter() {
        let (online, offline) = (calls.online.load(Relaxed), calls.offline.load(Relaxed));
        writeln!(f, "{} {online} {offline}", cpu.as_u32())?;
    }
    Ok(())
}

#[pin_data]
struct ProbeModule {
    _registration: Option<Registration<Probe>>,
    #[pin]
    _cpus: debugfs::File<Arc<Probe>>,
}

impl kernel::InPlaceModule for ProbeModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let dir = debugfs::Dir::new(c"cpuhp_probe");

        pin_init::pin_init_scope(move || {
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

            Ok(try_pin_init!(Self {
                _registration: registration,
                _cpus <- dir.read_callback_file(c"cpus", probe, &write),
            }))
        })
    }
}
