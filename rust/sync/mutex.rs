// SPDX-License-Identifier: GPL-2.0

//! A mutex for objects that safe code may leak, or give to another module.
//!
//! [`kernel::sync::Mutex`] has two limits. Its name and lock class are of the module that creates
//! it, which may go before the object: see [`lock_class`](crate::sync::lock_class). And a task that leaks
//! its guard must not end: who waits for a mutex looks whether its owner runs, see `owner_on_cpu()`
//! in `include/linux/sched.h`.

use kernel::{
    current,
    prelude::*,
    sync::{
        self,
        aref::ARef,
        lock::mutex,
        LockClassKey, //
    },
    task::Task, //
};

use crate::sync::lock_class::LockClass;

/// A mutex.
#[pin_data]
pub(crate) struct Mutex {
    #[pin]
    inner: sync::Mutex<()>,
    /// Goes after `inner`, which has pointers to it.
    _class: LockClass,
}

impl Mutex {
    /// Creates a mutex that nobody holds.
    ///
    /// Context: process. May sleep.
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        Self::with_class(LockClass::new(name, key))
    }

    /// Creates a mutex of a class that something else has, too, which goes before the mutex.
    ///
    /// Context: any.
    pub(crate) fn with_class(class: LockClass) -> impl PinInit<Self> {
        // SAFETY: `inner` has it, as long as it lives, and goes before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        pin_init!(Self {
            inner <- sync::Mutex::new((), name, key),
            _class: class,
        })
    }

    /// Waits for the mutex. The guard may be leaked, also by a task that ends.
    ///
    /// Context: process. Sleeps. C: `mutex_lock()`, `get_task_struct()`.
    pub(crate) fn lock(&self) -> MutexGuard<'_> {
        MutexGuard {
            _guard: self.inner.lock(),
            _owner: owner(),
        }
    }

    /// Calls `f` with the mutex held. There is no guard that `f` could leak.
    ///
    /// Context: process. Sleeps. C: `mutex_lock()`.
    pub(crate) fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let guard = self.inner.lock();
        let result = f();
        drop(guard);
        result
    }
}

/// The right to do what a [`Mutex`] protects.
pub(crate) struct MutexGuard<'a> {
    _guard: mutex::MutexGuard<'a, ()>,
    /// Goes after `_guard`: the task that a mutex is held by is there.
    _owner: ARef<Task>,
}

/// Returns a reference to the task that runs, for a lock that it holds.
///
/// Whoever waits for a lock reads the `task_struct` of its owner. If the guard is leaked, so is the
/// reference, and there is something to read when the task has ended.
#[inline]
pub(crate) fn owner() -> ARef<Task> {
    ARef::from(&**current!())
}

/// Tells whether the guards that `lock` returns have a reference to the task that runs.
#[cfg(kscale_kunit)]
pub(crate) fn keeps_owner<G>(lock: impl Fn() -> G) -> bool {
    const ROUNDS: usize = 64;
    let references = || {
        let task = (**current!()).as_ptr();
        // SAFETY: The task runs, and the count is only ever changed atomically.
        unsafe { (&raw const (*task).usage.refs.counter).read_volatile() }
    };
    let kept = (0..ROUNDS).filter(|_| {
        let before = references();
        let guard = lock();
        let during = references();
        drop(guard);
        during == before + 1
    });
    // Others may get and drop references meanwhile, but not each time.
    kept.count() > ROUNDS / 2
}
