// SPDX-License-Identifier: GPL-2.0

//! What is registered.

use kernel::{
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::num::NonZeroU16;

use kscale::percpu::counter::PerCpuCounter;

/// Something that is called by every walk. It gives back no memory, but checks that it may be
/// called at all.
#[pin_data]
pub(crate) struct Reclaimer {
    name: CString,
    /// How long a call sleeps.
    sleep_ms: u16,
    /// Of those who call it at once, only one sleeps.
    is_asleep: Atomic<bool>,
    /// Set when `unregister` has returned.
    is_gone: Atomic<bool>,
    #[pin]
    calls: PerCpuCounter,
}

/// Whether a call was within its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The reclaimer was registered, or being unregistered.
    InTime,
    /// It was unregistered before the call ended.
    Late,
}

impl Reclaimer {
    /// Creates one whose calls sleep for `sleep_ms` milliseconds, or do not sleep if that is 0.
    pub(crate) fn new(name: &str, sleep_ms: u16) -> Result<Arc<Self>> {
        let name = CString::try_from_fmt(fmt!("{name}"))?;

        Arc::pin_init(
            try_pin_init!(Self {
                name,
                sleep_ms,
                is_asleep: Atomic::new(false),
                is_gone: Atomic::new(false),
                calls <- PerCpuCounter::new(0),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// What a walk does with it.
    pub(crate) fn call(&self) -> Call {
        // No walk writes to a cache line of another CPU.
        self.calls.add_batch(1, NonZeroU16::MAX);
        if self.sleep_ms != 0 && !self.is_asleep.xchg(true, Acquire) {
            fsleep(Delta::from_millis(self.sleep_ms.into()));
            self.is_asleep.store(false, Release);
        }
        if self.is_gone.load(Acquire) {
            Call::Late
        } else {
            Call::InTime
        }
    }

    /// Says that `unregister` has returned.
    pub(crate) fn is_unregistered(&self) {
        self.is_gone.store(true, Release);
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> i64 {
        self.calls.sum()
    }

    /// Whether a call of it sleeps now.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Acquire)
    }
}
