// SPDX-License-Identifier: GPL-2.0

//! Reader-writer semaphores: locks with many readers or one writer, who may sleep.
//!
//! Use it where writers are rare, and readers few or slow: all readers write to the same cache
//! line, and a writer that waits keeps new readers out. Where readers are many, see
//! [`srcu`](crate::sync::srcu) and [`rcu_list`](crate::sync::rcu_list); where there are no readers to speak of,
//! [`kernel::sync::Mutex`].
//!
//! Not supported: interruptible locking, downgrading, and locking by one task and unlocking by
//! another.
//!
//! A guard that is leaked ([`core::mem::forget`]) holds the semaphore for ever. Whoever waits then
//! looks whether the writer runs, see `owner_on_cpu()` in `include/linux/sched.h`, so a
//! [`WriteGuard`] has a reference to the task: it costs two atomic operations per write. A semaphore
//! may outlive the module that creates it.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/rwsem.rs")]
//! ```

use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        LockClassKey, //
    },
    task::Task,
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

use core::{
    cell::UnsafeCell,
    ops::{
        Deref,
        DerefMut, //
    }, //
};

use crate::{
    bindings,
    sync::{
        lock_class::LockClass,
        mutex::owner, //
    }, //
};

/// Creates an [`RwSemaphore`] initialiser with a newly-created lock class.
#[macro_export]
macro_rules! new_rwsem {
    ($value:expr $(,)?) => {
        $crate::sync::rwsem::RwSemaphore::new(
            $value,
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_rwsem;

/// A value that many may read, or one may write.
///
/// # Invariants
///
/// `sem` is initialised.
#[pin_data]
pub struct RwSemaphore<T> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    /// Goes after `sem`, which has pointers to it.
    _class: LockClass,
    value: UnsafeCell<T>,
}

// SAFETY: A semaphore that nobody holds may be moved to another task, and so may the value.
unsafe impl<T: Send> Send for RwSemaphore<T> {}

// SAFETY: It gives many readers an `&T`, hence `Sync`, and a writer of any task an `&mut T`, hence
// `Send`.
unsafe impl<T: Send + Sync> Sync for RwSemaphore<T> {}

impl<T> RwSemaphore<T> {
    /// Creates a semaphore that nobody holds.
    ///
    /// Prefer [`new_rwsem!`], which supplies the lock class.
    ///
    /// Context: process. May sleep.
    pub fn new(
        value: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        let class = LockClass::new(name, key);
        // SAFETY: `sem` has it, as long as it lives, and goes before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        pin_init!(Self {
            // INVARIANT: It is initialised by the closure.
            sem <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`. Name and key
                // are there as long as `_class`, which outlives `sem`.
                unsafe { bindings::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr()) };
            }),
            _class: class,
            value: UnsafeCell::new(value),
        })
    }

    /// Waits until there is no writer, and reads.
    ///
    /// A task that reads already must not: a writer that waits keeps new readers out, also this.
    ///
    /// Context: process. Sleeps. C: `down_read()`.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::down_read(self.sem.get()) };
        // INVARIANT: `down_read()` returned.
        ReadGuard {
            rwsem: self,
            _not_send: NotThreadSafe,
        }
    }

    /// Reads, unless there is a writer, or one that waits.
    ///
    /// Context: process. Never sleeps. C: `down_read_trylock()`.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        // SAFETY: `sem` is initialised by the type invariants.
        let taken = unsafe { bindings::down_read_trylock(self.sem.get()) };
        // INVARIANT: `down_read_trylock()` returned 1.
        (taken != 0).then(|| ReadGuard {
            rwsem: self,
            _not_send: NotThreadSafe,
        })
    }

    /// Waits until there is nobody else, and writes.
    ///
    /// Context: process. Sleeps. C: `down_write()`.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::down_write(self.sem.get()) };
        // INVARIANT: `down_write()` returned.
        WriteGuard {
            rwsem: self,
            _owner: owner(),
            _not_send: NotThreadSafe,
        }
    }

    /// Writes, unless there is anybody else.
    ///
    /// Context: process. Never sleeps. C: `down_write_trylock()`.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        // SAFETY: `sem` is initialised by the type invariants.
        let taken = unsafe { bindings::down_write_trylock(self.sem.get()) };
        // INVARIANT: `down_write_trylock()` returned 1.
        (taken != 0).then(|| WriteGuard {
            rwsem: self,
            _owner: owner(),
            _not_send: NotThreadSafe,
        })
    }

    /// Tells whether somebody waits.
    ///
    /// Who holds the semaphore for long may ask, and let the others have it.
    ///
    /// Context: any. Never sleeps. C: `rwsem_is_contended()`.
    #[inline]
    pub fn is_contended(&self) -> bool {
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::rwsem_is_contended(self.sem.get()) }
    }
}

/// The right to read the value of an [`RwSemaphore`]. Leaking it keeps writers out for ever.
///
/// # Invariants
///
/// The semaphore is held for reading by this task.
#[must_use = "the semaphore is released at once"]
pub struct ReadGuard<'a, T> {
    rwsem: &'a RwSemaphore<T>,
    _not_send: NotThreadSafe,
}

// SAFETY: An `&ReadGuard` gives access to an `&T`.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The semaphore is held for reading by the type invariants, so nobody writes.
        unsafe { &*self.rwsem.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: It is held for reading by this task, by the type invariants.
        unsafe { bindings::up_read(self.rwsem.sem.get()) };
    }
}

/// The right to write the value of an [`RwSemaphore`]. Leaking it keeps everybody out for ever.
///
/// # Invariants
///
/// The semaphore is held for writing by this task.
#[must_use = "the semaphore is released at once"]
pub struct WriteGuard<'a, T> {
    rwsem: &'a RwSemaphore<T>,
    /// Goes after `drop()`: the task that the semaphore is held by is there.
    _owner: ARef<Task>,
    _not_send: NotThreadSafe,
}

// SAFETY: An `&WriteGuard` gives access to an `&T`.
unsafe impl<T: Sync> Sync for WriteGuard<'_, T> {}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The semaphore is held for writing by the type invariants, by who has `self`.
        unsafe { &*self.rwsem.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: The semaphore is held for writing by the type invariants, by who has `self`.
        unsafe { &mut *self.rwsem.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: It is held for writing by this task, by the type invariants.
        unsafe { bindings::up_write(self.rwsem.sem.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_rwsem)]
mod tests {
    use super::*;

    use crate::sync::mutex::keeps_owner;

    use kernel::{
        sync::{
            Arc,
            Completion, //
        },
        time::{
            delay::fsleep,
            Delta, //
        },
        workqueue, //
    };

    #[test]
    fn many_read_or_one_writes() -> Result {
        let rwsem = KBox::pin_init(new_rwsem!(1), GFP_KERNEL)?;

        let first = rwsem.read();
        let second = rwsem.try_read();
        assert_eq!(second.as_deref(), Some(&1));
        assert!(rwsem.try_write().is_none());
        drop(first);
        assert!(rwsem.try_write().is_none());
        drop(second);

        *rwsem.write() = 2;
        let mut writer = rwsem.try_write().ok_or(EBUSY)?;
        *writer += 1;
        assert!(rwsem.try_read().is_none());
        assert!(rwsem.try_write().is_none());
        drop(writer);
        assert_eq!(*rwsem.read(), 3);
        Ok(())
    }

    /// Who waits looks at the task of a writer, also if that has leaked its guard and ended.
    #[test]
    fn a_writer_has_a_reference_to_its_task() -> Result {
        let rwsem = KBox::pin_init(new_rwsem!(1), GFP_KERNEL)?;

        assert!(keeps_owner(|| rwsem.write()));
        assert!(keeps_owner(|| rwsem.try_write()));
        Ok(())
    }

    #[pin_data]
    struct Shared {
        #[pin]
        rwsem: RwSemaphore<u32>,
        #[pin]
        written: Completion,
    }

    #[test]
    fn a_writer_that_waits_keeps_readers_out() -> Result {
        let shared = Arc::pin_init(
            pin_init!(Shared {
                rwsem <- new_rwsem!(0),
                written <- Completion::new(),
            }),
            GFP_KERNEL,
        )?;
        let reader = shared.rwsem.read();
        assert!(!shared.rwsem.is_contended());

        let theirs = shared.clone();
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            *theirs.rwsem.write() = 1;
            theirs.written.complete_all();
        })?;
        while !shared.rwsem.is_contended() {
            fsleep(Delta::from_millis(1));
        }
        assert!(shared.rwsem.try_read().is_none());
        assert_eq!(*reader, 0);
        drop(reader);
        shared.written.wait_for_completion();
        assert_eq!(*shared.rwsem.read(), 1);
        Ok(())
    }
}
