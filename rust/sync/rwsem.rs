// SPDX-License-Identifier: GPL-2.0

//! Reader-writer semaphores: sleeping locks with many readers or one writer.
//!
//! Use them where writers are rare and readers are few or slow. All readers write to one cache
//! line, and a pending writer blocks new readers. For many readers see [`srcu`](crate::sync::srcu)
//! and [`rcu_list`](crate::sync::rcu_list). Without readers use [`kernel::sync::Mutex`].
//!
//! Not supported: interruptible locking, downgrading, and unlocking by another task.
//!
//! A leaked guard ([`core::mem::forget`]) holds the semaphore forever. Waiters then check whether
//! the writer runs on a CPU, see `owner_on_cpu()` in `include/linux/sched.h`. So a [`WriteGuard`]
//! holds a reference to its task, at the cost of two atomic operations per write. A semaphore may
//! outlive the module that created it.
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
    time::{
        delay::fsleep,
        Delta, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

#[cfg(CONFIG_PREEMPT_RT)]
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
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

/// A value that many readers or one writer may access.
///
/// # Invariants
///
/// `sem` is initialised.
#[pin_data]
pub struct RwSemaphore<T> {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
    /// Dropped after `sem`, which points into it.
    class: LockClass,
    value: UnsafeCell<T>,
}

// SAFETY: An unheld semaphore and its value may move to another task.
unsafe impl<T: Send> Send for RwSemaphore<T> {}

// SAFETY: Many readers get an `&T`, hence `Sync`. A writer in any task gets an `&mut T`, hence
// `Send`.
unsafe impl<T: Send + Sync> Sync for RwSemaphore<T> {}

impl<T> RwSemaphore<T> {
    /// Creates an unheld semaphore.
    ///
    /// Prefer [`new_rwsem!`], which supplies the lock class.
    ///
    /// Context: Process context. May sleep.
    pub fn new(
        value: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        let class = LockClass::new(name, key);
        // SAFETY: Only `sem` uses the name, and `sem` is dropped before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        pin_init!(Self {
            // INVARIANT: The closure initialises it.
            sem <- Opaque::ffi_init(move |slot| {
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`. Name and key
                // live as long as `class`, which outlives `sem`.
                unsafe { bindings::__init_rwsem(slot, name.as_char_ptr(), key.as_ptr()) };
            }),
            class,
            value: UnsafeCell::new(value),
        })
    }

    /// Acquires the semaphore for reading.
    ///
    /// Not recursive: a pending writer blocks further readers of the same task (deadlock).
    ///
    /// With `CONFIG_PREEMPT_RT`, waits while there are 2^29 or more guards. Only leaked guards are
    /// so many.
    ///
    /// Context: Process context. May sleep. C: `down_read()` in `kernel/locking/rwsem.c`.
    #[inline]
    pub fn read(&self) -> ReadGuard<'_, T> {
        while self.has_too_many_readers() {
            fsleep(Delta::from_secs(1));
        }
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::down_read(self.sem.get()) };
        // INVARIANT: `down_read()` returned.
        ReadGuard {
            rwsem: self,
            _class: self.class.clone(),
            _not_send: NotThreadSafe,
        }
    }

    /// Acquires the semaphore for reading, unless a writer holds it or waits for it.
    ///
    /// With `CONFIG_PREEMPT_RT`, also returns [`None`] while there are 2^29 or more guards.
    ///
    /// Context: Process context. Never sleeps. C: `down_read_trylock()` in
    /// `kernel/locking/rwsem.c`.
    #[inline]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        if self.has_too_many_readers() {
            return None;
        }
        // SAFETY: `sem` is initialised by the type invariants.
        let taken = unsafe { bindings::down_read_trylock(self.sem.get()) };
        // INVARIANT: `down_read_trylock()` returned 1.
        (taken != 0).then(|| ReadGuard {
            rwsem: self,
            _class: self.class.clone(),
            _not_send: NotThreadSafe,
        })
    }

    /// Acquires the semaphore for writing.
    ///
    /// Context: Process context. May sleep. C: `down_write()` in `kernel/locking/rwsem.c`.
    #[inline]
    pub fn write(&self) -> WriteGuard<'_, T> {
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::down_write(self.sem.get()) };
        // INVARIANT: `down_write()` returned.
        WriteGuard {
            rwsem: self,
            _class: self.class.clone(),
            _owner: owner(),
            _not_send: NotThreadSafe,
        }
    }

    /// Acquires the semaphore for writing, unless another task holds it.
    ///
    /// Context: Process context. Never sleeps. C: `down_write_trylock()` in
    /// `kernel/locking/rwsem.c`.
    #[inline]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        // SAFETY: `sem` is initialised by the type invariants.
        let taken = unsafe { bindings::down_write_trylock(self.sem.get()) };
        // INVARIANT: `down_write_trylock()` returned 1.
        (taken != 0).then(|| WriteGuard {
            rwsem: self,
            _class: self.class.clone(),
            _owner: owner(),
            _not_send: NotThreadSafe,
        })
    }

    /// Returns whether more readers could overflow their number in the semaphore.
    ///
    /// With `CONFIG_PREEMPT_RT`, `__rwbase_read_lock()` in `kernel/locking/rwbase_rt.c` increments
    /// an `atomic_t` without a check. Without it, the number has more than 50 bits.
    #[inline]
    fn has_too_many_readers(&self) -> bool {
        #[cfg(CONFIG_PREEMPT_RT)]
        {
            // SAFETY: `sem` is initialised by the type invariants, so this is a valid `atomic_t`,
            // to which others have atomic accesses only.
            let readers =
                unsafe { Atomic::from_ptr(&raw mut (*self.sem.get()).rwbase.readers.counter) };
            // A pending writer clears `READER_BIAS`, the highest bit. `WRITER_BIAS` is a writer
            // without readers.
            let readers = readers.load(Relaxed) & i32::MAX;
            readers != 1 << 30 && readers >= 1 << 29
        }
        #[cfg(not(CONFIG_PREEMPT_RT))]
        {
            false
        }
    }

    /// Returns whether a task waits for the semaphore.
    ///
    /// A task that holds the semaphore for a long time can release it for the waiters.
    ///
    /// Context: Any context. Never sleeps. C: `rwsem_is_contended()` in `include/linux/rwsem.h`.
    #[inline]
    pub fn is_contended(&self) -> bool {
        // SAFETY: `sem` is initialised by the type invariants.
        unsafe { bindings::rwsem_is_contended(self.sem.get()) }
    }
}

/// A guard that allows reads of the value. A leaked guard blocks writers forever.
///
/// # Invariants
///
/// This task holds the semaphore for reading.
#[must_use = "the semaphore is released at once"]
pub struct ReadGuard<'a, T> {
    rwsem: &'a RwSemaphore<T>,
    /// Dropped after `drop()`: the class exists while a task holds the semaphore.
    _class: LockClass,
    _not_send: NotThreadSafe,
}

// SAFETY: An `&ReadGuard` gives access to an `&T`.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants the semaphore is held for reading, so no writer exists.
        unsafe { &*self.rwsem.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants this task holds the semaphore for reading.
        unsafe { bindings::up_read(self.rwsem.sem.get()) };
    }
}

/// A guard that allows writes of the value. A leaked guard blocks all tasks forever.
///
/// # Invariants
///
/// This task holds the semaphore for writing.
#[must_use = "the semaphore is released at once"]
pub struct WriteGuard<'a, T> {
    rwsem: &'a RwSemaphore<T>,
    /// Dropped after `drop()`: the class exists while a task holds the semaphore.
    _class: LockClass,
    /// Dropped after `drop()`: the task exists while it owns the semaphore.
    _owner: ARef<Task>,
    _not_send: NotThreadSafe,
}

// SAFETY: An `&WriteGuard` gives access to an `&T`.
unsafe impl<T: Sync> Sync for WriteGuard<'_, T> {}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants the semaphore is held for writing, through `self`.
        unsafe { &*self.rwsem.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: By the type invariants the semaphore is held for writing, through `self`.
        unsafe { &mut *self.rwsem.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants this task holds the semaphore for writing.
        unsafe { bindings::up_write(self.rwsem.sem.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_rwsem)]
mod tests {
    use super::*;

    use crate::{
        sync::mutex::keeps_owner,
        testing::task::OtherTask, //
    };

    use kernel::{
        sync::Arc, //
    };

    #[test]
    fn readers_share_and_writers_exclude() -> Result {
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

    /// Waiters look at the task of a writer, even if it leaked its guard and has exited.
    #[test]
    fn a_writer_has_a_reference_to_its_task() -> Result {
        let rwsem = KBox::pin_init(new_rwsem!(1), GFP_KERNEL)?;

        assert!(keeps_owner(|| rwsem.write()));
        assert!(keeps_owner(|| rwsem.try_write()));
        Ok(())
    }

    #[test]
    fn pending_writer_blocks_new_readers() -> Result {
        let rwsem: Arc<RwSemaphore<u32>> = Arc::pin_init(new_rwsem!(0), GFP_KERNEL)?;
        let reader = rwsem.read();
        assert!(!rwsem.is_contended());

        let theirs = rwsem.clone();
        let writer = OtherTask::start(move || *theirs.write() = 1)?;
        while !rwsem.is_contended() {
            fsleep(Delta::from_millis(1));
        }
        assert!(rwsem.try_read().is_none());
        assert_eq!(*reader, 0);
        drop(reader);
        writer.wait();
        assert_eq!(*rwsem.read(), 1);
        Ok(())
    }
}

#[cfg(all(kscale_kunit, CONFIG_PREEMPT_RT))]
#[kunit_tests(kscale_rwsem_rt)]
mod rt_tests {
    use super::*;

    /// Readers that leak their guards do not overflow the number of readers.
    #[test]
    fn readers_are_limited() -> Result {
        let rwsem = KBox::pin_init(new_rwsem!(1), GFP_KERNEL)?;
        let first = rwsem.read();
        // SAFETY: The semaphore is initialised.
        let readers =
            unsafe { Atomic::from_ptr(&raw mut (*rwsem.sem.get()).rwbase.readers.counter) };

        readers.add((1 << 29) - 2, Relaxed);
        let last = rwsem.try_read();
        assert!(last.is_some());
        assert!(rwsem.try_read().is_none());
        assert!(rwsem.try_write().is_none());
        drop(last);
        assert!(rwsem.try_read().is_some());
        readers.add(2 - (1 << 29), Relaxed);
        drop(first);

        let writer = rwsem.try_write();
        assert!(writer.is_some() && rwsem.try_read().is_none());
        drop(writer);
        assert_eq!(*rwsem.read(), 1);
        Ok(())
    }
}
