// SPDX-License-Identifier: GPL-2.0

//! Tasks that wait for an operation of a client.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::block::dm::wait::IoCompletion;

use super::call::Results;

/// A task that waits for an operation and its two results.
#[pin_data]
pub(super) struct Waiter {
    #[pin]
    done: IoCompletion,
    first: Atomic<usize>,
    second: Atomic<usize>,
}

impl Waiter {
    /// Creates a waiter of one operation.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            done <- IoCompletion::new(),
            first: Atomic::new(0),
            second: Atomic::new(0),
        })
    }

    /// Returns the context of the operation in C, for [`Waiter::wake()`].
    pub(super) fn context(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }

    /// Waits for [`Waiter::wake()`], and returns its results.
    pub(super) fn wait(&self) -> Results {
        self.done.wait();
        (self.first.load(Relaxed), self.second.load(Relaxed))
    }

    /// Wakes the waiter of an operation.
    ///
    /// # Safety
    ///
    /// `context` must be from [`Waiter::context()`], of a waiter that lives until this wakes it.
    /// Must be called once.
    pub(super) unsafe fn wake(context: *mut c_void, (first, second): Results) {
        // SAFETY: By this function's contract.
        let waiter = unsafe { &*context.cast::<Self>() };
        waiter.first.store(first, Relaxed);
        waiter.second.store(second, Relaxed);
        waiter.done.complete_all();
    }
}
