// SPDX-License-Identifier: GPL-2.0

//! Waits for I/O.

use kernel::{
    prelude::*,
    time::msecs_to_jiffies,
    types::Opaque, //
};

use crate::bindings;

/// The end of I/O, which tasks wait for.
///
/// The kernel reports a task that waits for minutes at a [`Completion`](kernel::sync::Completion)
/// (`kernel/hung_task.c`), and may panic then. A device may take that long: for example, it may be
/// suspended.
///
/// C: `blk_wait_io()` in `block/blk.h`.
///
/// # Invariants
///
/// `inner` is initialised.
#[pin_data]
pub(in crate::block::dm) struct IoCompletion {
    #[pin]
    inner: Opaque<bindings::completion>,
}

// SAFETY: Any task may use a completion.
unsafe impl Send for IoCompletion {}

// SAFETY: The functions of a completion take the lock that they need.
unsafe impl Sync for IoCompletion {}

impl IoCompletion {
    /// Creates a completion of I/O that has not ended.
    pub(in crate::block::dm) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: The closure initialises `inner`.
            inner <- Opaque::ffi_init(|slot| {
                // SAFETY: `slot` is memory for a completion, which does not move.
                unsafe { bindings::init_completion(slot) };
            }),
        })
    }

    /// Ends all waits. A waiter that frees `self` does so after the last access here.
    ///
    /// Context: Any context except NMI. Never sleeps.
    pub(in crate::block::dm) fn complete_all(&self) {
        // SAFETY: `inner` is initialised, by the type invariants.
        unsafe { bindings::complete_all(self.inner.get()) };
    }

    /// Waits for the end.
    ///
    /// Context: Process context. May sleep.
    pub(in crate::block::dm) fn wait(&self) {
        // In parts, so that the kernel does not report the task.
        let jiffies = msecs_to_jiffies(10_000);
        // SAFETY: `inner` is initialised, by the type invariants.
        while unsafe { bindings::wait_for_completion_io_timeout(self.inner.get(), jiffies) } == 0 {}
    }
}
