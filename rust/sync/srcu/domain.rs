// SPDX-License-Identifier: GPL-2.0

//! A domain: readers, and grace periods that wait for them.

use kernel::{
    bindings::lock_class_key,
    error::to_result,
    ffi::{
        c_char,
        c_int, //
    },
    impl_has_work,
    new_work,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque,
    workqueue::{
        Queue,
        Work,
        WorkItem, //
    }, //
};

use core::{
    marker::PhantomData,
    mem::ManuallyDrop, //
};

use crate::{
    bindings,
    sync::lock_class::LockClass, //
};

use super::{
    flavor::Flavor,
    pending, //
};

/// Creates a [`Domain`] with the given name and a newly-created lock class.
///
/// The flavor is that of the type it is assigned to.
#[doc(hidden)]
#[macro_export]
macro_rules! new_srcu_domain {
    ($($name:literal)?) => {
        $crate::sync::srcu::Domain::new(
            ::kernel::optional_name!($($name)?),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_srcu_domain as new_domain;

/// The domain itself.
///
/// # Invariants
///
/// - `inner` was initialised by `F::init()` of the flavor of all handles, and is not cleaned up
///   before `PinnedDrop`.
/// - `queue` is the queue of [`pending`].
#[pin_data(PinnedDrop)]
pub(super) struct Core {
    #[pin]
    inner: Opaque<bindings::srcu_struct>,
    /// Goes after `inner`, which has pointers to it.
    _class: LockClass,
    name: CString,
    queue: *mut bindings::workqueue_struct,
    /// Drops it where that may sleep.
    #[pin]
    release: Work<Core>,
}

// SAFETY: An `srcu_struct` is not tied to the task that initialised it, nor is a work queue.
unsafe impl Send for Core {}

// SAFETY: All functions that are called with `inner` take the locks they need, but for
// `cleanup_srcu_struct()`, which `PinnedDrop` calls. The others fields do not change.
unsafe impl Sync for Core {}

impl_has_work! {
    impl HasWork<Self> for Core { self.release }
}

impl WorkItem for Core {
    type Pointer = Arc<Core>;

    /// Drops the last reference.
    fn run(this: Arc<Core>) {
        drop(this);
    }
}

impl Core {
    /// Returns the C domain, which is initialised as long as `self` lives.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::srcu_struct {
        self.inner.get()
    }

    /// Creates a domain with the init function of its flavor.
    ///
    /// # Safety
    ///
    /// `init` must initialise the domain.
    unsafe fn new(
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
        init: unsafe fn(*mut bindings::srcu_struct, *const c_char, *mut lock_class_key) -> c_int,
    ) -> Result<Arc<Self>> {
        let queue = pending::queue();
        // The module may go before the domain, and then be missed by who waits for a leaked guard.
        let copy = CString::try_from(name)?;
        let class = LockClass::new(name, key);
        // SAFETY: `inner` has it, as long as it lives, and goes before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        Arc::pin_init(
            try_pin_init!(Self {
                // INVARIANT: `inner` is initialised if this closure returns `Ok`.
                inner <- Opaque::try_ffi_init(move |slot| {
                    // SAFETY:
                    // - `slot` is valid for writes, by the contract of `try_ffi_init()`.
                    // - `name` and `key` are there as long as `_class`, which outlives `inner`.
                    to_result(unsafe { init(slot, name.as_char_ptr(), key.as_ptr()) })
                }),
                _class: class,
                name: copy,
                // INVARIANT: See above.
                queue,
                release <- new_work!("kscale::srcu::release"),
            }),
            GFP_KERNEL,
        )
    }

    /// Waits for all guards that are held.
    pub(super) fn synchronize(&self) {
        // SAFETY: `inner` is initialised by the type invariants.
        unsafe { bindings::synchronize_srcu(self.as_raw()) };
    }

    /// Drops a reference, and leaves it to a worker if it is the last and this cannot sleep.
    fn put(this: Arc<Self>) {
        let Some(last) = Arc::into_unique_or_drop(this) else {
            return;
        };
        let last: Arc<Self> = last.into();

        // SAFETY: The helper only looks at counts of this CPU and task.
        if unsafe { bindings::may_block() } {
            drop(last);
            return;
        }
        // SAFETY: By the type invariants it is the library's queue, which is destroyed when nobody
        // uses the library any more.
        let queue = unsafe { Queue::from_raw(last.queue) };
        // It is not queued, as nobody else has it.
        let _ = queue.enqueue(last);
    }
}

#[pinned_drop]
impl PinnedDrop for Core {
    /// Waits for polled grace periods and for callbacks, and for guards that were leaked.
    ///
    /// `cleanup_srcu_struct()` would return early if there was anything of that, and leave workers
    /// and timers with pointers to what is freed next.
    fn drop(self: Pin<&mut Self>) {
        let srcu = self.inner.get();

        // SAFETY: `inner` is initialised by the type invariants.
        if unsafe { bindings::srcu_readers_active(srcu) } {
            // Guards borrow a handle, or have one.
            pr_err!(
                "srcu: domain '{}' is dropped, but a guard of it was leaked: waiting for ever\n",
                self.name.to_str().unwrap_or_default()
            );
            #[cfg(kscale_kunit)]
            super::testing::note_wait_for_leaked();
        }
        // Also for polled grace periods: none that was asked for is later than this one. They have
        // no callback that `srcu_barrier()` could wait for.
        self.synchronize();
        // SAFETY: `inner` is initialised by the type invariants.
        unsafe { bindings::srcu_barrier(srcu) };
        // SAFETY: As above. There is no guard, no grace period that goes on and no callback left,
        // and nobody can start one, as this is the last reference.
        unsafe { bindings::cleanup_srcu_struct(srcu) };
    }
}

/// A handle of an SRCU domain. Cloning it costs a reference count.
///
/// Pointers, lists and retired items have a handle each, so they may be dropped in any order.
///
/// A domain takes some hundred bytes for every possible CPU: have one for many objects.
pub struct Domain<F: Flavor> {
    /// Not dropped but by `drop`.
    core: ManuallyDrop<Arc<Core>>,
    _flavor: PhantomData<F>,
}

// SAFETY: It is a reference count of something that is `Send` and `Sync`, and a flavor has no
// values.
unsafe impl<F: Flavor> Send for Domain<F> {}

// SAFETY: As above.
unsafe impl<F: Flavor> Sync for Domain<F> {}

impl<F: Flavor> Domain<F> {
    /// Creates a domain.
    ///
    /// Prefer [`new_domain!`], which supplies the lock class.
    ///
    /// Fails with [`ENOMEM`].
    ///
    /// Context: process. Sleeps. C: `init_srcu_struct()`, `init_srcu_struct_fast()`,
    /// `init_srcu_struct_fast_updown()`.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> Result<Self> {
        Ok(Self {
            // SAFETY: `F::init()` initialises a domain.
            core: ManuallyDrop::new(unsafe { Core::new(name, key, F::init) }?),
            _flavor: PhantomData,
        })
    }

    /// Waits for a grace period: until all guards that are held now are dropped.
    ///
    /// Must not be called with a guard of this domain: it would wait for itself.
    ///
    /// Context: process. Sleeps, for milliseconds unless the domain was idle. C:
    /// `synchronize_srcu()`.
    #[inline]
    pub fn synchronize(&self) {
        self.core.synchronize();
    }

    /// Waits for a grace period, and burns CPU time to make it shorter.
    ///
    /// Otherwise as [`Domain::synchronize()`].
    ///
    /// Context: process. Sleeps. Disturbs all CPUs for [`Fast`](super::Fast) and
    /// [`FastUpDown`](super::FastUpDown). C: `synchronize_srcu_expedited()`.
    #[inline]
    pub fn synchronize_expedited(&self) {
        // SAFETY: The domain is initialised by the invariants of `Core`.
        unsafe { bindings::synchronize_srcu_expedited(self.as_raw()) };
    }

    /// Waits until all items are freed that were left to [`Retired::free_later()`].
    ///
    /// Those of [`Retired::free_in_workqueue()`] are queued by then. Must not be called with a
    /// guard of this domain.
    ///
    /// Context: process. Sleeps. C: `srcu_barrier()`.
    ///
    /// [`Retired::free_later()`]: super::Retired::free_later
    /// [`Retired::free_in_workqueue()`]: super::Retired::free_in_workqueue
    #[inline]
    pub fn barrier(&self) {
        // SAFETY: The domain is initialised by the invariants of `Core`.
        unsafe { bindings::srcu_barrier(self.as_raw()) };
    }

    /// Returns the domain itself.
    #[inline]
    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// Returns the C domain, which is initialised as long as `self` lives.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::srcu_struct {
        self.core.as_raw()
    }
}

impl<F: Flavor> Clone for Domain<F> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            core: self.core.clone(),
            _flavor: PhantomData,
        }
    }
}

impl<F: Flavor> Drop for Domain<F> {
    /// Waits, if it is the last handle, for polled grace periods and for callbacks.
    ///
    /// A worker does that if this context cannot sleep, such as in the destructor of an item that
    /// `call_srcu()` frees.
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `core` is not used after it.
        Core::put(unsafe { ManuallyDrop::take(&mut self.core) });
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_domain)]
mod tests {
    use super::*;

    use kernel::{
        interrupt::local_interrupt_disable,
        sync::rcu, //
    };

    use super::super::{
        testing::{
            nap,
            pointer,
            retire,
            Drops,
            Elsewhere, //
        },
        Fast,
        FastUpDown,
        Normal, //
    };

    fn waits<F: Flavor>() -> Result {
        let domain: Domain<F> = new_domain!()?;
        drop(domain.read_lock());
        domain.synchronize();
        domain.synchronize_expedited();
        domain.barrier();
        Ok(())
    }

    #[test]
    fn a_quiet_domain_is_waited_for() -> Result {
        waits::<Normal>()?;
        waits::<Fast>()?;
        waits::<FastUpDown>()
    }

    /// There is no callback that `srcu_barrier()` could wait for.
    #[test]
    fn drop_waits_for_polled_grace_periods() -> Result {
        for _ in 0..4 {
            let domain: Domain<Normal> = new_domain!()?;
            assert!(!domain.start_poll().poll());
        }
        let domain: Domain<Fast> = new_domain!()?;
        assert!(!domain.start_poll().poll());
        Ok(())
    }

    #[test]
    fn synchronize_waits_for_a_guard() -> Result {
        let domain: Domain<FastUpDown> = new_domain!()?;
        let guard = domain.clone().into_down_read();
        let drops = Drops::new()?;
        let before = drops.value();
        Elsewhere::start(move || {
            drop(before);
            drop(guard);
        })?;

        domain.synchronize();

        assert_eq!(drops.count(), 1);
        Ok(())
    }

    #[test]
    fn the_last_handle_may_be_dropped_with_interrupts_off() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let _ = domain.start_poll();

        let irq = local_interrupt_disable();
        drop(domain);
        drop(irq);
        Ok(())
    }

    /// Where it is preemptible, counts of this CPU do not tell, and sleeping there is warned of.
    #[test]
    fn the_last_handle_may_be_dropped_by_a_reader_of_rcu() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let _ = domain.start_poll();

        let reader = rcu::read_lock();
        drop(domain);
        drop(reader);
        Ok(())
    }

    /// Tells whether something waits for a guard that is held elsewhere.
    fn waits_for_a_guard(
        domain: &Domain<FastUpDown>,
        wait: impl FnOnce() -> Result,
    ) -> Result<bool> {
        let guard = domain.clone().into_down_read();
        let drops = Drops::new()?;
        let before = drops.value();
        Elsewhere::start(move || {
            nap();
            drop(before);
            drop(guard);
        })?;

        wait()?;
        Ok(drops.count() == 1)
    }

    #[test]
    fn all_that_wait_for_a_grace_period_wait_for_guards() -> Result {
        let domain: Domain<FastUpDown> = new_domain!()?;
        let pointer = pointer(&domain, 1)?;
        let waits = |wait: &dyn Fn() -> Result| waits_for_a_guard(&domain, wait);

        assert!(waits(&|| {
            domain.synchronize();
            Ok(())
        })?);
        assert!(waits(&|| {
            domain.synchronize_expedited();
            Ok(())
        })?);
        assert!(waits(&|| retire(&pointer, 2).map(drop))?);
        assert!(waits(&|| retire(&pointer, 2).map(|it| drop(it.wait())))?);
        assert!(waits(
            &|| retire(&pointer, 2).map(|it| drop(it.wait_expedited()))
        )?);
        // Of what was left to it.
        assert!(waits(&|| {
            retire(&pointer, 2)?.free_later();
            domain.barrier();
            Ok(())
        })?);
        Ok(())
    }

    #[test]
    fn an_idle_domain_has_nothing_to_wait_for() -> Result {
        let domain: Domain<Normal> = new_domain!()?;

        let cookie = domain.get_state();
        assert!(!cookie.poll());
        domain.synchronize();
        assert!(cookie.poll());
        Ok(())
    }
}
