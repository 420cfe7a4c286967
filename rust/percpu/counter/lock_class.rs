// SPDX-License-Identifier: GPL-2.0

//! The lock class of all counters.
//!
//! A leaked counter stays on C's list, and C takes its lock when a CPU goes offline:
//! `percpu_counter_cpu_dead()` in `lib/percpu_counter.c`. So the class must outlive the module that
//! created the counter. A static class in that module does not. No lock is taken under a counter's
//! lock, so all counters can share one class.

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

/// The key of [`LockClass`], while the library is loaded.
static KEY: Atomic<*mut lock_class_key> = Atomic::new(ptr::null_mut());

/// The number of initialised counter allocations.
static LIVE: Atomic<usize> = Atomic::new(0);

/// The owner of the lock class. The library keeps it.
pub(crate) struct LockClass {
    key: ManuallyDrop<Pin<KBox<LockClassKey>>>,
}

impl LockClass {
    /// Creates the lock class.
    ///
    /// Fails with [`ENOMEM`] if there is no memory.
    ///
    /// Context: Process context. May sleep. Called before the first counter is created.
    pub(crate) fn new() -> Result<Self> {
        let key = KBox::pin_init(LockClassKey::new_dynamic(), GFP_KERNEL)?;

        KEY.store(key.as_ptr(), Release);
        Ok(Self {
            key: ManuallyDrop::new(key),
        })
    }

    /// Returns the class for a new counter. It stays registered with lockdep while a counter
    /// exists.
    pub(super) fn key() -> *mut lock_class_key {
        KEY.load(Acquire)
    }

    /// Counts an initialised counter allocation.
    pub(super) fn begin() {
        LIVE.add(1, Relaxed);
    }

    /// Counts a destroyed counter allocation.
    pub(super) fn end() {
        LIVE.fetch_sub(1, Release);
    }
}

impl Drop for LockClass {
    fn drop(&mut self) {
        // No task can create or destroy counters now. The class of leaked counters is leaked:
        // lockdep still uses it, and kmemleak reports it.
        if LIVE.load(Acquire) == 0 {
            // SAFETY: Only this function drops the key, and `drop` runs once.
            unsafe { ManuallyDrop::drop(&mut self.key) };
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_counter_lock_class)]
mod tests {
    use super::*;

    use super::super::PerCpuCounter;

    #[test]
    fn counters_keep_the_class() -> Result {
        let before = LIVE.load(Relaxed);

        let counter = KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;
        assert_eq!(LIVE.load(Relaxed), before + 1);
        drop(counter);
        assert_eq!(LIVE.load(Relaxed), before);
        Ok(())
    }
}
