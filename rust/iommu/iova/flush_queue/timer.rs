// SPDX-License-Identifier: GPL-2.0

//! The timer of a queue.

use kernel::{
    prelude::*,
    types::Opaque, //
};

use crate::bindings;

/// A timer of C's, which calls a function in a softirq.
///
/// # Invariants
///
/// It is initialised.
#[repr(transparent)]
pub(super) struct Timer(Opaque<bindings::timer_list>);

// SAFETY: A timer belongs to no task.
unsafe impl Send for Timer {}

// SAFETY: C takes the locks that it needs.
unsafe impl Sync for Timer {}

impl Timer {
    /// Creates a timer that is not armed.
    ///
    /// # Safety
    ///
    /// - `func` must be fit to be called with the timer once it is armed.
    /// - An armed timer must be [shut down](Self::shutdown_sync) before it is freed.
    pub(super) unsafe fn new(
        func: unsafe extern "C" fn(*mut bindings::timer_list),
    ) -> impl PinInit<Self> {
        let init = move |slot: *mut Self| {
            // SAFETY: `slot` is valid for writes, by the contract of `pin_init_from_closure()`, and
            // stays where it is until it is dropped.
            unsafe { bindings::timer_setup(slot.cast(), Some(func)) };
            Ok(())
        };
        // INVARIANT: Initialised by the closure.
        //
        // SAFETY: It initialises what it is given, and never fails.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// Has the function called in `delay_ms` milliseconds, rounded up to jiffies, and only then.
    ///
    /// Does nothing after [`shutdown_sync()`](Self::shutdown_sync).
    pub(super) fn arm(&self, delay_ms: u32) {
        // SAFETY: It is initialised by the type invariants.
        unsafe { bindings::mod_timer_msecs(self.0.get(), delay_ms) };
    }

    /// Waits until the function has returned, and keeps it from being called again.
    ///
    /// Not for the function itself to call, which would wait for ever.
    pub(super) fn shutdown_sync(&self) {
        // SAFETY: It is initialised by the type invariants.
        unsafe { bindings::timer_shutdown_sync(self.0.get()) };
    }

    /// Returns the timer that C calls back with.
    pub(super) fn from_raw(timer: *mut bindings::timer_list) -> *const Self {
        timer.cast_const().cast()
    }
}
