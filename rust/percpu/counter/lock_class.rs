// SPDX-License-Identifier: GPL-2.0

//! The lock class of all counters.
//!
//! A counter that is forgotten stays on C's list, and its lock is taken whenever a CPU goes offline:
//! `percpu_counter_cpu_dead()` in `lib/percpu_counter.c`. So its class must be there for good, which
//! one in the module that made the counter is not. No lock is taken inside of a counter's, so one
//! class does for all of them.

use kernel::{
    bindings::lock_class_key,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        LockClassKey, //
    },
};

use core::{
    mem::ManuallyDrop,
    ptr, //
};

/// What [`LockClass`] has, as long as the module is there.
static KEY: Atomic<*mut lock_class_key> = Atomic::new(ptr::null_mut());

/// Allocations of counters that are initialised.
static LIVE: Atomic<usize> = Atomic::new(0);

/// The lock class, to be kept by the module.
pub(crate) struct LockClass {
    key: ManuallyDrop<Pin<KBox<LockClassKey>>>,
}

impl LockClass {
    /// Makes counters possible.
    ///
    /// Fails with [`ENOMEM`] if memory is short.
    ///
    /// Context: process, before anything makes a counter. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let key = KBox::pin_init(LockClassKey::new_dynamic(), GFP_KERNEL)?;

        KEY.store(key.as_ptr(), Release);
        Ok(Self {
            key: ManuallyDrop::new(key),
        })
    }

    /// Returns the class for a new counter: registered with lockdep as long as one is live.
    pub(super) fn key() -> *mut lock_class_key {
        KEY.load(Acquire)
    }

    /// Notes that counters are initialised.
    pub(super) fn begin() {
        LIVE.add(1, Relaxed);
    }

    /// Notes that counters are destroyed, and the lock class is not theirs any more.
    pub(super) fn end() {
        LIVE.fetch_sub(1, Release);
    }
}

impl Drop for LockClass {
    fn drop(&mut self) {
        // Nobody can make or destroy counters any more. Of those that were forgotten, the class
        // stays behind: lockdep still knows it, and kmemleak sees that.
        if LIVE.load(Acquire) == 0 {
            // SAFETY: This is the only place that drops it, and runs once.
            unsafe { ManuallyDrop::drop(&mut self.key) };
        }
    }
}
