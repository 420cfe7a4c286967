// SPDX-License-Identifier: GPL-2.0

//! What lockdep knows of walks.
//!
//! Who removes a value waits for the walks that are at it, as `synchronize_srcu()` does for readers,
//! and is annotated in the same way.

use kernel::{
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

use crate::bindings;

/// The walks of a list, as lockdep sees them: like readers who hold a lock. Nothing without it.
///
/// # Invariants
///
/// `map` is initialised.
#[pin_data]
pub(super) struct Visits {
    #[pin]
    map: Opaque<bindings::lockdep_map>,
}

impl Visits {
    /// Makes one without walks.
    ///
    /// # Safety
    ///
    /// `name` and `key` must be there as long as this.
    pub(super) unsafe fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: It is initialised by the closure.
            map <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`. Name and key
                // stay by the contract of this function.
                unsafe { bindings::lockdep_init_map(slot, name.as_char_ptr(), key.as_ptr()) };
            }),
        })
    }

    /// Notes that the task is at a value.
    #[inline]
    pub(super) fn begin(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: `map` is initialised by the type invariants.
            unsafe { bindings::lock_map_acquire_read(self.map.get()) };
        }
    }

    /// Notes that it is no longer.
    #[inline]
    pub(super) fn end(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: As in `begin()`.
            unsafe { bindings::lock_map_release(self.map.get()) };
        }
    }

    /// Notes that the task waits for those who are at a value.
    #[inline]
    pub(super) fn wait(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: As in `begin()`.
            unsafe { bindings::lock_map_sync(self.map.get()) };
        }
    }
}
