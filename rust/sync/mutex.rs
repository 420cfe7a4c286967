// SPDX-License-Identifier: GPL-2.0

//! A mutex for objects that safe code may leak, or pass to another module.
//!
//! [`kernel::sync::Mutex`] has two limits. Its name and lock class belong to the module that
//! creates it, which may be unloaded before the object: see
//! [`lock_class`](crate::sync::lock_class). And a task that leaks its guard must not exit: waiters
//! check whether the owner runs on a CPU, see `owner_on_cpu()` in `include/linux/sched.h`.

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

/// A mutex without a value.
#[pin_data]
pub(crate) struct Mutex {
    #[pin]
    inner: sync::Mutex<()>,
    /// Dropped after `inner`, which points into it.
    class: LockClass,
}

impl Mutex {
    /// Creates an unheld mutex.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        Self::with_class(LockClass::new(name, key))
    }

    /// Creates a mutex that shares its class with another object, which is dropped before the
    /// mutex.
    ///
    /// Context: Any context. Never sleeps.
    pub(crate) fn with_class(class: LockClass) -> impl PinInit<Self> {
        // SAFETY: Only `inner` uses the name, and `inner` is dropped before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        pin_init!(Self {
            inner <- sync::Mutex::new((), name, key),
            class,
        })
    }

    /// Returns the class, which lives until the returned value is dropped.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub(crate) fn class(&self) -> LockClass {
        self.class.clone()
    }

    /// Acquires the mutex. The guard may be leaked, even by a task that exits.
    ///
    /// Context: Process context. May sleep. C: `mutex_lock()` in `kernel/locking/mutex.c`,
    /// `get_task_struct()` in `include/linux/sched/task.h`.
    pub(crate) fn lock(&self) -> MutexGuard<'_> {
        MutexGuard {
            _guard: self.inner.lock(),
            _class: self.class(),
            _owner: owner(),
        }
    }

    /// Calls `f` with the mutex held. `f` gets no guard that it could leak.
    ///
    /// Context: Process context. May sleep. C: `mutex_lock()` in `kernel/locking/mutex.c`.
    pub(crate) fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        let guard = self.inner.lock();
        let result = f();
        drop(guard);
        result
    }
}

/// A guard of a held [`Mutex`].
pub(crate) struct MutexGuard<'a> {
    _guard: mutex::MutexGuard<'a, ()>,
    /// Dropped after `_guard`: the class exists while a task holds the mutex.
    _class: LockClass,
    /// Dropped after `_guard`: the task exists while it owns the mutex.
    _owner: ARef<Task>,
}

/// Returns a reference to the current task, for a lock that it holds.
///
/// Waiters read the `task_struct` of the owner. A leaked guard leaks the reference, so the
/// `task_struct` stays readable after the task has exited.
#[inline]
pub(crate) fn owner() -> ARef<Task> {
    ARef::from(&**current!())
}

/// Returns whether the guards that `lock` returns hold a reference to the current task.
#[cfg(kscale_kunit)]
pub(crate) fn keeps_owner<G>(lock: impl Fn() -> G) -> bool {
    const ROUNDS: usize = 64;
    let references = || {
        let task = (**current!()).as_ptr();
        // SAFETY: The task is running, and all writers of the count are atomic.
        unsafe { (&raw const (*task).usage.refs.counter).read_volatile() }
    };
    let kept = (0..ROUNDS).filter(|_| {
        let before = references();
        let guard = lock();
        let during = references();
        drop(guard);
        during == before + 1
    });
    // Other tasks may get and drop references meanwhile, but not in every round.
    kept.count() > ROUNDS / 2
}
