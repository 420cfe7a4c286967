// SPDX-License-Identifier: GPL-2.0

//! Guards: read-side critical sections.

use kernel::{
    prelude::*,
    types::NotThreadSafe, //
};

use core::ptr;

use super::{
    domain::{
        Core,
        Domain, //
    },
    flavor::{
        Flavor,
        UpDown, //
    },
};

mod sealed {
    use super::Core;

    pub trait Section {
        /// Returns the domain that this is a read-side critical section of.
        #[expect(private_interfaces, reason = "nobody else can call it")]
        fn core(&self) -> &Core;
    }
}
use sealed::Section;

/// A read-side critical section of some domain of flavor `F`.
pub trait ReadSection<F: Flavor>: Section {}

/// The guard is of another domain than what it was to protect.
///
/// Converts to [`EINVAL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongDomain;

impl From<WrongDomain> for Error {
    fn from(_: WrongDomain) -> Self {
        EINVAL
    }
}

/// Tells whether `section` is one of `domain`.
#[inline]
pub(super) fn check<F: Flavor>(
    domain: &Domain<F>,
    section: &impl ReadSection<F>,
) -> Result<(), WrongDomain> {
    if ptr::eq(domain.core(), section.core()) {
        Ok(())
    } else {
        Err(WrongDomain)
    }
}

impl<F: Flavor> Domain<F> {
    /// Enters a read-side critical section of this task.
    ///
    /// Context: any but NMI; for [`Fast`](super::Fast) also NMI, but only where RCU is watching.
    /// Never sleeps; the caller may sleep before it drops the guard, if it may otherwise. C:
    /// `srcu_read_lock()`, `srcu_read_lock_fast()`, `srcu_read_lock_fast_updown()`.
    #[inline]
    pub fn read_lock(&self) -> Guard<'_, F> {
        // INVARIANT: `cookie` is from this domain.
        Guard {
            core: self.core(),
            // SAFETY: The domain is initialised for `F` by the invariants of `Core`.
            cookie: unsafe { F::read_lock(self.as_raw()) },
            _not_send: NotThreadSafe,
        }
    }
}

impl<F: UpDown> Domain<F> {
    /// Enters a read-side critical section that any task may leave.
    ///
    /// Lockdep does not see it.
    ///
    /// Context: any but NMI; for [`FastUpDown`](super::FastUpDown) where RCU is watching. Never
    /// sleeps. C: `srcu_down_read()`, `srcu_down_read_fast()`.
    #[inline]
    pub fn down_read(&self) -> DownGuard<'_, F> {
        // INVARIANT: `cookie` is from this domain.
        DownGuard {
            core: self.core(),
            // SAFETY: The domain is initialised for `F` by the invariants of `Core`.
            cookie: unsafe { F::down_read(self.as_raw()) },
        }
    }

    /// Enters a read-side critical section that any task may leave, and keeps the handle.
    ///
    /// For guards that are stored, or given to a work item.
    ///
    /// Context: as [`Domain::down_read()`].
    #[inline]
    pub fn into_down_read(self) -> OwnedDownGuard<F> {
        // INVARIANT: `cookie` is from this domain.
        OwnedDownGuard {
            // SAFETY: The domain is initialised for `F` by the invariants of `Core`.
            cookie: unsafe { F::down_read(self.as_raw()) },
            domain: self,
        }
    }
}

/// A read-side critical section of the task that took it.
///
/// Leaking it makes every grace period of the domain wait for ever.
///
/// # Invariants
///
/// `cookie` is from `F::read_lock()` with `core`, and unused.
#[must_use = "the critical section ends at once"]
pub struct Guard<'a, F: Flavor> {
    core: &'a Core,
    cookie: F::Cookie,
    _not_send: NotThreadSafe,
}

impl<F: Flavor> Section for Guard<'_, F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn core(&self) -> &Core {
        self.core
    }
}

impl<F: Flavor> ReadSection<F> for Guard<'_, F> {}

impl<F: Flavor> Drop for Guard<'_, F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `cookie` is of this domain and unused by the type invariants, and of this task,
        // as a guard is not `Send`.
        unsafe { F::read_unlock(self.core.as_raw(), self.cookie) };
    }
}

/// A read-side critical section that any task may leave.
///
/// Leaking it makes every grace period of the domain wait for ever.
///
/// # Invariants
///
/// `cookie` is from `F::down_read()` with `core`, and unused.
#[must_use = "the critical section ends at once"]
pub struct DownGuard<'a, F: UpDown> {
    core: &'a Core,
    cookie: F::Cookie,
}

// SAFETY: `srcu_up_read()` and `srcu_up_read_fast()` may be called by another task than the one
// that entered, see the comment of `srcu_down_read()` in `include/linux/srcu.h`.
unsafe impl<F: UpDown> Send for DownGuard<'_, F> {}

// SAFETY: A `&DownGuard` only tells which domain it is of.
unsafe impl<F: UpDown> Sync for DownGuard<'_, F> {}

impl<F: UpDown> Section for DownGuard<'_, F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn core(&self) -> &Core {
        self.core
    }
}

impl<F: UpDown> ReadSection<F> for DownGuard<'_, F> {}

impl<F: UpDown> Drop for DownGuard<'_, F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `cookie` is of this domain and unused by the type invariants.
        unsafe { F::up_read(self.core.as_raw(), self.cookie) };
    }
}

/// A read-side critical section that any task may leave, with a handle of its domain.
///
/// Leaking it makes every grace period of the domain wait for ever, and leaks the domain.
///
/// # Invariants
///
/// `cookie` is from `F::down_read()` with `domain`, and unused.
#[must_use = "the critical section ends at once"]
pub struct OwnedDownGuard<F: UpDown> {
    cookie: F::Cookie,
    domain: Domain<F>,
}

// SAFETY: As for `DownGuard`; the handle is `Send`.
unsafe impl<F: UpDown> Send for OwnedDownGuard<F> {}

// SAFETY: A `&OwnedDownGuard` only tells which domain it is of.
unsafe impl<F: UpDown> Sync for OwnedDownGuard<F> {}

impl<F: UpDown> Section for OwnedDownGuard<F> {
    #[expect(private_interfaces, reason = "nobody else can call it")]
    #[inline]
    fn core(&self) -> &Core {
        self.domain.core()
    }
}

impl<F: UpDown> ReadSection<F> for OwnedDownGuard<F> {}

impl<F: UpDown> Drop for OwnedDownGuard<F> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `cookie` is of this domain and unused by the type invariants. The handle is
        // dropped after this.
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
        module::this_module, //
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
            nap,
            waits_for_leaked,
            Elsewhere, //
        },
        wait_for_callbacks, //
    };

    /// Waits until a grace period has started and ended. If it never does, the test times out.
    fn is_quiet<F: Flavor>(domain: &Domain<F>) -> bool {
        let cookie = domain.start_poll();
        while !cookie.poll() {
            nap();
        }
        true
    }

    /// Whether none ends in some milliseconds.
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
        Elsewhere::start(move || drop(guard))?.wait();
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
    fn a_down_guard_may_be_dropped_elsewhere() -> Result {
        assert!(moves::<Normal>(&new_domain!()?)?);
        assert!(moves::<FastUpDown>(&new_domain!()?)?);
        Ok(())
    }

    #[test]
    fn guards_come_and_go_with_interrupts_off() -> Result {
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
    fn a_guard_is_of_one_domain() -> Result {
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

    /// The guest test `srcu_registry` looks for what this says in the log.
    #[test]
    fn drop_waits_for_a_guard_that_was_leaked() -> Result {
        let domain: Domain<Normal> = new_domain!("kscale_leaked")?;
        let guard = domain.down_read();
        let (srcu, cookie) = (domain.as_raw() as usize, guard.cookie);
        forget(guard);

        let waits = waits_for_leaked();
        let dropped = Elsewhere::start(move || drop(domain))?;
        while waits_for_leaked() == waits {
            nap();
        }
        for _ in 0..10 {
            nap();
        }
        assert!(!dropped.is_done());

        // SAFETY: The domain waits for this, and the cookie was not used.
        unsafe { Normal::up_read(srcu as *mut _, cookie) };
        dropped.wait();
        Ok(())
    }

    /// A domain needs nothing of the module that created it.
    #[test]
    fn no_module_waits_for_domains_that_a_worker_drops() -> Result {
        let domain: Domain<Normal> = new_domain!("kscale_left_to_worker")?;
        let guard = domain.down_read();
        let (srcu, cookie) = (domain.as_raw() as usize, guard.cookie);
        forget(guard);

        let waits = waits_for_leaked();
        let irq = local_interrupt_disable();
        drop(domain);
        drop(irq);
        while waits_for_leaked() == waits {
            nap();
        }
        let gone = Elsewhere::start(|| {
            wait_for_callbacks(this_module::<crate::LocalModule>().as_ptr());
        })?;
        gone.wait();

        // SAFETY: The domain waits for this, and the cookie was not used.
        unsafe { Normal::up_read(srcu as *mut _, cookie) };
        Ok(())
    }
}
