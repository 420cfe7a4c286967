// SPDX-License-Identifier: GPL-2.0

//! The reclaimers in a registry.

use kernel::{
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    }, //
};

use core::num::NonZeroU16;

use kscale::percpu::counter::PerCpuCounter;

/// A reclaimer that every walk calls. It frees no memory, but checks that the call is allowed.
#[pin_data]
pub(crate) struct Reclaimer {
    name: CString,
    /// Longest sleep of a call, in milliseconds.
    sleep_ms: u16,
    /// Set while a call sleeps. Concurrent calls do not sleep.
    is_asleep: Atomic<bool>,
    /// The number of calls of [`wake()`](Self::wake). A change ends the sleep.
    wakes: Atomic<u32>,
    /// Set after `unregister` returned.
    is_gone: Atomic<bool>,
    #[pin]
    calls: PerCpuCounter,
}

/// Whether a call is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The reclaimer was registered, or `unregister` was running.
    InTime,
    /// `unregister` returned before the call ended.
    Late,
}

impl Reclaimer {
    /// Creates a reclaimer whose calls sleep for `sleep_ms` milliseconds, or until
    /// [`wake()`](Self::wake); 0 for no sleep.
    pub(crate) fn new(name: &str, sleep_ms: u16) -> Result<Arc<Self>> {
        let name = CString::try_from_fmt(fmt!("{name}"))?;

        Arc::pin_init(
            try_pin_init!(Self {
                name,
                sleep_ms,
                is_asleep: Atomic::new(false),
                wakes: Atomic::new(0),
                is_gone: Atomic::new(false),
                calls <- PerCpuCounter::new(0),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// Called by each walk.
    pub(crate) fn call(&self) -> Call {
        // A large batch, so that walks write to no cache line of another CPU.
        self.calls.add_batch(1, NonZeroU16::MAX);
        if self.sleep_ms != 0 {
            self.sleep();
        }
        if self.is_gone.load(Acquire) {
            Call::Late
        } else {
            Call::InTime
        }
    }

    /// Sleeps, unless another call does.
    fn sleep(&self) {
        // Before the flag is set: a task that sees the flag may wake this one.
        let wakes = self.wakes.load(Relaxed);
        if self.is_asleep.xchg(true, Full) {
            return;
        }
        let start = Instant::<Monotonic>::now();
        while self.wakes.load(Relaxed) == wakes
            && start.elapsed().as_millis() < self.sleep_ms.into()
        {
            fsleep(Delta::from_millis(1));
        }
        self.is_asleep.store(false, Release);
    }

    /// Ends the sleep of a call.
    pub(crate) fn wake(&self) {
        self.wakes.add(1, Relaxed);
    }

    /// Records that `unregister` has returned.
    pub(crate) fn mark_unregistered(&self) {
        self.is_gone.store(true, Release);
    }

    /// Returns the number of calls.
    pub(crate) fn calls(&self) -> i64 {
        self.calls.sum()
    }

    /// Returns whether a call sleeps now.
    pub(crate) fn is_asleep(&self) -> bool {
        self.is_asleep.load(Acquire)
    }
}
