// SPDX-License-Identifier: GPL-2.0

//! Guards: read-side critical sections.

use kernel::{
    prelude::*,
    types::NotThreadSafe, //
};

use core::ptr;

use super::{
    domain::{
        Domain,
        DomainInner, //
    },
    flavor::{
        Flavor,
        UpDown, //
    }, //
};

mod sealed {
    use super::DomainInner;

    pub trait Section {
        /// Returns the domain of this read-side critical section.
        #[expect(private_interfaces, reason = "nobody else can call it")]
        fn inner(&self) -> &DomainInner;
    }
}
use sealed::Section;

/// A read-side critical section of a domain of flavor `F`.
pub trait ReadSection<F: Flavor>: Section {}

/// The error of a guard that belongs to another domain than the protected item.
///
/// Converts to [`EINVAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongDomain;

impl From<WrongDomain> for Error {
    fn from(_: WrongDomain) -> Self {
        EINVAL
    }
}

/// Checks that `section` is of `domain`.
#[inline]
pub(super) fn check<F: Flavor>(
    domain: &Domain<F>,
    section: &impl ReadSection<F>,
) -> Result<(), WrongDomain> {
    if ptr::eq(domain.inner(), section.inner()) {
        Ok(())
    } else {
        Err(WrongDomain)
    }
}

impl<F: Flavor> Domain<F> {
    /// Enters a read-side critical section of this task.
    ///
    /// Context: Any context except NMI. Never sleeps. [`Fast`](super::Fast) also allows NMI; RCU
    /// must be watching. The reader may sleep while it holds the guard. C: `srcu_read_lock()`,
    /// `srcu_read_lock_fast()` and `srcu_read_lock_fast_updown()` in `include/linux/srcu.h`.
    #[inline]
    pub fn read_lock(&self) -> Guard<'_, F> {
        // INVARIANT: `cookie` is from this domain.
        Guard {
            inner: self.inner(),
            // SAFETY: The domain is initialised for `F` by the invariants of `DomainInner`.
            cookie: unsafe { F::read_lock(self.as_raw()) },
            _not_send: NotThreadSafe,
        }
    }
}

impl<F: UpDown> Domain<F> {
    /// Enters a read-side critical section that another task may leave.
    ///
    /// Lockdep does not track it.
    ///
    /// Context: Any context except NMI. Never sleeps. [`FastUpDown`](super::FastUpDown) requires
    /// that RCU is watching. C: `srcu_down_read()` and `srcu_down_read_fast()` in
    /// `include/linux/srcu.h`.
    #[inline]
    pub fn down_read(&self) -> DownGuard<'_, F> {
        // INVARIANT: `cookie` is from this domain.
        DownGuard {
            inner: self.inner(),
            // SAFETY: The domain is initialised for `F` by the invariants of `DomainInner`.
            cookie: unsafe { F::down_read(self.as_raw()) },
        }
    }

    /// Enters a read-side critical section that another task may leave, and keeps the handle.
    ///
    /// For a guard that is stored, or moved to a work item.
    ///
    /// Context: As [`Domain::down_read()`].
    #[inline]
    pub fn into_down_read(self) -> OwnedDownGuard<F> {
        // INVARIANT: `cookie` is from this domain.
        OwnedDownGuard {
            // SAFETY: The domain is initialised for `F` by the invariants of `DomainInner`.
            cookie: unsafe { F::down_read(self.as_raw()) },
            domain: self,
        }
    }
}

/// A read-side critical section of the current task.
///
/// A leaked guard makes every grace period of the domain wait forever.
///
/// # Invariants
///
/// `cookie` is from `F::read_lock()` with `inner`, and no unlock has used it.
#[must_use = "the critical section ends at once"]
pub struct Guard<'a, F: Flavor> {
    inner: &'a DomainInner,
    cookie: F::Cookie,
    _not_send: NotThreadSafe,
}

impl<F: Flavor> Section for Guard<'_, F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn inner(&self) -> &DomainInner {
        self.inner
    }
}

impl<F: Flavor> ReadSection<F> for Guard<'_, F> {}

impl<F: Flavor> Drop for Guard<'_, F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants `cookie` is of this domain and unused. It is of this task,
        // as a guard is not `Send`.
        unsafe { F::read_unlock(self.inner.as_raw(), self.cookie) };
    }
}

/// A read-side critical section that another task may leave.
///
/// A leaked guard makes every grace period of the domain wait forever.
///
/// # Invariants
///
/// `cookie` is from `F::down_read()` with `inner`, and no unlock has used it.
#[must_use = "the critical section ends at once"]
pub struct DownGuard<'a, F: UpDown> {
    inner: &'a DomainInner,
    cookie: F::Cookie,
}

// SAFETY: A task other than the reader may call `srcu_up_read()` and `srcu_up_read_fast()`, see the
// comment of `srcu_down_read()` in `include/linux/srcu.h`.
unsafe impl<F: UpDown> Send for DownGuard<'_, F> {}

// SAFETY: A `&DownGuard` only returns its domain.
unsafe impl<F: UpDown> Sync for DownGuard<'_, F> {}

impl<F: UpDown> Section for DownGuard<'_, F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn inner(&self) -> &DomainInner {
        self.inner
    }
}

impl<F: UpDown> ReadSection<F> for DownGuard<'_, F> {}

impl<F: UpDown> Drop for DownGuard<'_, F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants `cookie` is of this domain and unused.
        unsafe { F::up_read(self.inner.as_raw(), self.cookie) };
    }
}

/// A read-side critical section that another task may leave, with a handle of its domain.
///
/// A leaked guard makes every grace period of the domain wait forever, and leaks the domain.
///
/// # Invariants
///
/// `cookie` is from `F::down_read()` with `domain`, and no unlock has used it.
#[must_use = "the critical section ends at once"]
pub struct OwnedDownGuard<F: UpDown> {
    cookie: F::Cookie,
    domain: Domain<F>,
}

// SAFETY: As for `DownGuard`; the handle is `Send`.
unsafe impl<F: UpDown> Send for OwnedDownGuard<F> {}

// SAFETY: A `&OwnedDownGuard` only returns its domain.
unsafe impl<F: UpDown> Sync for OwnedDownGuard<F> {}

impl<F: UpDown> Section for OwnedDownGuard<F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn inner(&self) -> &DomainInner {
        self.domain.inner()
    }
}

impl<F: UpDown> ReadSection<F> for OwnedDownGuard<F> {}

impl<F: UpDown> Drop for OwnedDownGuard<F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants `cookie` is of this domain and unused. The handle is
        // dropped after this call.
        unsafe { F::up_read(self.domain.as_raw(), self.cookie) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_guard)]
mod tests {
    use super::*;

    use core::mem::forget;

    use kernel::{
        interrupt::local_interrupt_disable,
        sync::Arc, //
    };

    use super::super::{
        flavor::{
            sealed::RawUpDown,
            Fast,
            FastUpDown,
            Normal, //
        },
        new_domain,
        testing::{
            leaks,
            nap,
            wait_for_callbacks,
            OtherTask, //
        }, //
    };

    /// Waits until a grace period has started and ended. Otherwise the test times out.
    fn is_quiet<F: Flavor>(domain: &Domain<F>) -> bool {
        let cookie = domain.start_poll();
        while !cookie.poll() {
            nap();
        }
        true
    }

    /// Returns whether no grace period ends within some milliseconds.
    fn is_held_up<F: Flavor>(domain: &Domain<F>) -> bool {
        let cookie = domain.start_poll();
        (0..4).all(|_| {
            nap();
            !cookie.poll()
        })
    }

    fn nests<F: Flavor>(domain: &Domain<F>) -> bool {
        let outer = domain.read_lock();
        let inner = domain.read_lock();
        let both = is_held_up(domain);
        drop(outer);
        let one = is_held_up(domain);
        drop(inner);
        both && one && is_quiet(domain)
    }

    fn moves<F: UpDown>(domain: &Domain<F>) -> Result<bool> {
        let guard = domain.clone().into_down_read();
        let down = domain.down_read();
        let held = is_held_up(domain);
        drop(down);
        OtherTask::start(move || drop(guard))?.wait();
        Ok(held && is_quiet(domain))
    }

    #[test]
    fn guards_hold_up_grace_periods_and_nest() -> Result {
        assert!(nests::<Normal>(&new_domain!()?));
        assert!(nests::<Fast>(&new_domain!()?));
        assert!(nests::<FastUpDown>(&new_domain!()?));
        Ok(())
    }

    #[test]
    fn down_guard_is_dropped_by_another_task() -> Result {
        assert!(moves::<Normal>(&new_domain!()?)?);
        assert!(moves::<FastUpDown>(&new_domain!()?)?);
        Ok(())
    }

    #[test]
    fn guards_are_taken_and_dropped_with_interrupts_off() -> Result {
        let normal: Domain<Normal> = new_domain!()?;
        let fast: Domain<Fast> = new_domain!()?;

        let irq = local_interrupt_disable();
        drop(normal.read_lock());
        drop(fast.read_lock());
        drop(normal.down_read());
        drop(irq);

        assert!(is_quiet(&normal));
        assert!(is_quiet(&fast));
        Ok(())
    }

    #[test]
    fn guard_of_another_domain_is_rejected() -> Result {
        let one: Domain<FastUpDown> = new_domain!()?;
        let other: Domain<FastUpDown> = new_domain!()?;

        assert_eq!(check(&one, &one.read_lock()), Ok(()));
        assert_eq!(check(&one, &one.clone().read_lock()), Ok(()));
        assert_eq!(check(&one, &one.down_read()), Ok(()));
        assert_eq!(check(&one, &one.clone().into_down_read()), Ok(()));
        assert_eq!(check(&one, &other.read_lock()), Err(WrongDomain));
        assert_eq!(check(&one, &other.down_read()), Err(WrongDomain));
        assert_eq!(check(&one, &other.into_down_read()), Err(WrongDomain));
        Ok(())
    }

    /// The guest suite `srcu_registry` greps the log for the message of this drop.
    #[test]
    fn domain_with_a_leaked_guard_is_leaked() -> Result {
        for is_atomic in [false, true] {
            let domain: Domain<Normal> = new_domain!("kscale_leaked")?;
            let guard = domain.down_read();
            let (inner, cookie) = (&raw const *domain.inner(), guard.cookie);
            let srcu = domain.as_raw();
            forget(guard);
            let leaks_before = leaks();

            let irq = is_atomic.then(local_interrupt_disable);
            drop(domain);
            drop(irq);

            assert_eq!(leaks(), leaks_before + 1);
            // The unload of a module does not wait: a domain uses no memory of the module.
            wait_for_callbacks();
            // SAFETY: The domain was leaked, so it is not freed. The cookie is unused.
            unsafe { Normal::up_read(srcu, cookie) };
            // SAFETY: The drop has leaked this reference, and nothing else has one.
            drop(unsafe { Arc::from_raw(inner) });
        }
        Ok(())
    }
}
