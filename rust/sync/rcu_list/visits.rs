// SPDX-License-Identifier: GPL-2.0

//! Lockdep annotations of walks.
//!
//! A removal waits for the walks at the value, as `synchronize_srcu()` waits for readers. It has
//! the same annotation.

use kernel::{
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

use crate::bindings;

/// The walks of a list as a lock for lockdep: each walk is a reader. Empty without lockdep.
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
    /// Creates an annotation without walks.
    ///
    /// # Safety
    ///
    /// `name` and `key` must live as long as the returned value.
    pub(super) unsafe fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // INVARIANT: The closure initialises it.
            map <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`. By the
                // contract of this function name and key stay valid.
                unsafe { bindings::lockdep_init_map(slot, name.as_char_ptr(), key.as_ptr()) };
            }),
        })
    }

    /// Records that the current task is at a value.
    #[inline]
    pub(super) fn begin(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: `map` is initialised by the type invariants.
            unsafe { bindings::lock_map_acquire_read(self.map.get()) };
        }
    }

    /// Records that the current task has left a value.
    #[inline]
    pub(super) fn end(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: As in `begin()`.
            unsafe { bindings::lock_map_release(self.map.get()) };
        }
    }

    /// Records that the current task waits for walks.
    #[inline]
    pub(super) fn wait(&self) {
        if cfg!(CONFIG_LOCKDEP) {
            // SAFETY: As in `begin()`.
            unsafe { bindings::lock_map_sync(self.map.get()) };
        }
    }
}
