// SPDX-License-Identifier: GPL-2.0

//! The timer of a queue.

use kernel::{
    prelude::*,
    types::Opaque, //
};

use crate::bindings;

/// A kernel timer, whose function runs in a softirq.
///
/// # Invariants
///
/// It is initialised.
#[repr(transparent)]
pub(super) struct Timer(Opaque<bindings::timer_list>);

// SAFETY: A timer belongs to no task.
unsafe impl Send for Timer {}

// SAFETY: The timer functions of C take the locks that they need.
unsafe impl Sync for Timer {}

impl Timer {
    /// Creates a timer that is not armed.
    ///
    /// # Safety
    ///
    /// - Once the timer is armed, it must be sound to call `func` with it.
    /// - An armed timer must be [shut down](Self::shutdown_sync) before it is freed.
    pub(super) unsafe fn new(
        func: unsafe extern "C" fn(*mut bindings::timer_list),
    ) -> impl PinInit<Self> {
        let init = move |slot: *mut Self| {
            // SAFETY: `slot` is valid for writes, by the contract of `pin_init_from_closure()`, and
            // does not move until it is dropped.
            unsafe { bindings::timer_setup(slot.cast(), Some(func)) };
            Ok(())
        };
        // INVARIANT: Initialised by the closure.
        //
        // SAFETY: The closure initialises `slot`, and never fails.
        unsafe { pin_init::pin_init_from_closure(init) }
    }

    /// (Re)arms the timer to expire in `delay_ms` milliseconds, rounded up to jiffies.
    ///
    /// Does nothing after [`shutdown_sync()`](Self::shutdown_sync).
    pub(super) fn arm(&self, delay_ms: u32) {
        // SAFETY: It is initialised by the type invariants.
        unsafe { bindings::mod_timer_msecs(self.0.get(), delay_ms) };
    }

    /// Waits for the function to return, and disables the timer.
    ///
    /// The function itself must not call this (deadlock).
    pub(super) fn shutdown_sync(&self) {
        // SAFETY: It is initialised by the type invariants.
        unsafe { bindings::timer_shutdown_sync(self.0.get()) };
    }

    /// Returns the `Timer` of a callback's argument.
    pub(super) fn from_raw(timer: *mut bindings::timer_list) -> *const Self {
        timer.cast_const().cast()
    }
}
