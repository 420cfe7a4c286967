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
    lib::name,
    sync::lock_class::LockClass, //
};

use super::{
    flavor::Flavor,
    pending, //
};

/// Creates a [`Domain`] with the given name and a newly-created lock class.
///
/// The type of the result selects the flavor.
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

/// The C domain, shared by all handles.
///
/// # Invariants
///
/// - `inner` was initialised by `F::init()` of the flavor of all handles, and is not cleaned up
///   before `PinnedDrop`.
/// - `queue` is the queue of [`pending`].
#[pin_data(PinnedDrop)]
pub(super) struct DomainInner {
    #[pin]
    inner: Opaque<bindings::srcu_struct>,
    /// Dropped after `inner`, which points into it.
    _class: LockClass,
    name: CString,
    queue: *mut bindings::workqueue_struct,
    /// Drops the last reference in a context that may sleep.
    #[pin]
    release: Work<DomainInner>,
}

// SAFETY: Neither an `srcu_struct` nor a work queue is tied to the task that initialised it.
unsafe impl Send for DomainInner {}

// SAFETY: All functions that are called with `inner` take the locks that they need, except
// `cleanup_srcu_struct()`, which only `PinnedDrop` calls. The other fields do not change.
unsafe impl Sync for DomainInner {}

impl_has_work! {
    impl HasWork<Self> for DomainInner { self.release }
}

impl WorkItem for DomainInner {
    type Pointer = Arc<DomainInner>;

    /// Drops the last reference.
    fn run(this: Arc<DomainInner>) {
        drop(this);
    }
}

impl DomainInner {
    /// Returns the C domain, which is initialised while `self` lives.
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
        // A copy: the module that passed `name` may be unloaded before the domain is dropped.
        let copy = name::copy(name)?;
        let class = LockClass::new(name, key);
        // SAFETY: Only `inner` uses the name, and `inner` is dropped before `class`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.key() };

        Arc::pin_init(
            try_pin_init!(Self {
                // INVARIANT: `inner` is initialised if this closure returns `Ok`.
                inner <- Opaque::try_ffi_init(move |slot| {
                    // SAFETY:
                    // - `slot` is valid for writes, by the contract of `try_ffi_init()`.
                    // - `name` and `key` live as long as `_class`, which outlives `inner`.
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

    /// Waits for all guards that are held now.
    pub(super) fn synchronize(&self) {
        // SAFETY: `inner` is initialised by the type invariants.
        unsafe { bindings::synchronize_srcu(self.as_raw()) };
    }

    /// Drops a reference. In atomic context a worker drops the last reference. A domain with a
    /// leaked guard is leaked: its grace periods never end.
    fn put(this: Arc<Self>) {
        let Some(last) = Arc::into_unique_or_drop(this) else {
            return;
        };
        let last: Arc<Self> = last.into();

        // SAFETY: The domain is initialised by the type invariants.
        if unsafe { bindings::srcu_readers_active(last.as_raw()) } {
            // Every other guard borrows or owns a handle, so this guard was leaked.
            pr_err!(
                "srcu: domain '{}' dropped with a leaked guard, leaking it\n",
                last.name.to_str().unwrap_or_default()
            );
            #[cfg(kscale_kunit)]
            super::testing::note_leak();
            let _ = Arc::into_raw(last);
            return;
        }
        // SAFETY: The helper only reads counters of this CPU and task.
        if unsafe { bindings::may_block() } {
            drop(last);
            return;
        }
        // SAFETY: By the type invariants this is the queue of the library. The library destroys it
        // when it has no users.
        let queue = unsafe { Queue::from_raw(last.queue) };
        // The work is not queued yet: this is the only reference.
        let _ = queue.enqueue(last);
    }
}

#[pinned_drop]
impl PinnedDrop for DomainInner {
    /// Waits for polled grace periods, and for callbacks.
    ///
    /// With any of them pending, `cleanup_srcu_struct()` returns early. Workers and timers would
    /// then use freed memory.
    fn drop(self: Pin<&mut Self>) {
        let srcu = self.inner.get();

        // Also waits for polled grace periods: all of them end before this grace period does. They
        // have no callback, so `srcu_barrier()` does not wait for them.
        self.synchronize();
        // SAFETY: `inner` is initialised by the type invariants.
        unsafe { bindings::srcu_barrier(srcu) };
        // SAFETY: As above. No guard, no grace period and no callback is left, and nothing can
        // start a new one, because this is the last reference.
        unsafe { bindings::cleanup_srcu_struct(srcu) };
    }
}

/// A handle of an SRCU domain.
///
/// A clone takes a reference count. Pointers, lists and retired items each hold a handle, so they
/// may be dropped in any order.
///
/// A domain takes some hundred bytes per possible CPU. Share one domain between many objects.
pub struct Domain<F: Flavor> {
    /// Only `drop()` drops it.
    inner: ManuallyDrop<Arc<DomainInner>>,
    _flavor: PhantomData<F>,
}

// SAFETY: A handle is a reference count of a type that is `Send` and `Sync`. A flavor has no
// values.
unsafe impl<F: Flavor> Send for Domain<F> {}

// SAFETY: As above.
unsafe impl<F: Flavor> Sync for Domain<F> {}

impl<F: Flavor> Domain<F> {
    /// Creates a domain.
    ///
    /// Prefer [`new_domain!`], which supplies the lock class.
    ///
    /// Fails with [`EINVAL`] if `name` is longer than a page, and with [`ENOMEM`].
    ///
    /// Context: Process context. May sleep. C: `init_srcu_struct()`, `init_srcu_struct_fast()` and
    /// `init_srcu_struct_fast_updown()` in `kernel/rcu/srcutree.c`.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> Result<Self> {
        Ok(Self {
            // SAFETY: `F::init()` initialises a domain.
            inner: ManuallyDrop::new(unsafe { DomainInner::new(name, key, F::init) }?),
            _flavor: PhantomData,
        })
    }

    /// Waits for a grace period: until all guards that are held now are dropped.
    ///
    /// The caller must not hold a guard of this domain (deadlock).
    ///
    /// Context: Process context. May sleep. Takes milliseconds unless the domain was idle. C:
    /// `synchronize_srcu()` in `kernel/rcu/srcutree.c`.
    #[inline]
    pub fn synchronize(&self) {
        self.inner.synchronize();
    }

    /// Waits for an expedited grace period, at the cost of more CPU time.
    ///
    /// The caller must not hold a guard of this domain (deadlock).
    ///
    /// Context: Process context. May sleep. For [`Fast`](super::Fast) and
    /// [`FastUpDown`](super::FastUpDown) it interrupts all CPUs. C: `synchronize_srcu_expedited()`
    /// in `kernel/rcu/srcutree.c`.
    #[inline]
    pub fn synchronize_expedited(&self) {
        // SAFETY: The domain is initialised by the invariants of `DomainInner`.
        unsafe { bindings::synchronize_srcu_expedited(self.as_raw()) };
    }

    /// Waits until all items that were passed to [`Retired::free_later()`] are freed.
    ///
    /// Items that were passed to [`Retired::free_in_workqueue()`] are then queued. The caller must
    /// not hold a guard of this domain (deadlock).
    ///
    /// Context: Process context. May sleep. C: `srcu_barrier()` in `kernel/rcu/srcutree.c`.
    ///
    /// [`Retired::free_later()`]: super::Retired::free_later
    /// [`Retired::free_in_workqueue()`]: super::Retired::free_in_workqueue
    #[inline]
    pub fn barrier(&self) {
        // SAFETY: The domain is initialised by the invariants of `DomainInner`.
        unsafe { bindings::srcu_barrier(self.as_raw()) };
    }

    /// Returns the shared C domain.
    #[inline]
    pub(super) fn inner(&self) -> &DomainInner {
        &self.inner
    }

    /// Returns the C domain, which is initialised while `self` lives.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::srcu_struct {
        self.inner.as_raw()
    }
}

impl<F: Flavor> Clone for Domain<F> {
    #[inline]
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            _flavor: PhantomData,
        }
    }
}

impl<F: Flavor> Drop for Domain<F> {
    /// Drops the handle. The last handle waits for polled grace periods and for callbacks.
    ///
    /// A worker waits instead if this context cannot sleep, for example in a destructor that
    /// `call_srcu()` runs. Without `CONFIG_PREEMPT_COUNT` a worker always waits.
    fn drop(&mut self) {
        // SAFETY: `drop` runs once, and `inner` is not used after it.
        DomainInner::put(unsafe { ManuallyDrop::take(&mut self.inner) });
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
            OtherTask, //
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
    fn waits_return_without_readers() -> Result {
        waits::<Normal>()?;
        waits::<Fast>()?;
        waits::<FastUpDown>()
    }

    /// A polled grace period has no callback that `srcu_barrier()` could wait for.
    #[test]
    fn drop_waits_for_polled_grace_periods() -> Result {
        for _ in 0..4 {
            let domain: Domain<Normal> = new_domain!()?;
            let _ = domain.start_poll();
        }
        let domain: Domain<Fast> = new_domain!()?;
        let _ = domain.start_poll();
        Ok(())
    }

    #[test]
    fn synchronize_waits_for_a_guard() -> Result {
        let domain: Domain<FastUpDown> = new_domain!()?;
        let guard = domain.clone().into_down_read();
        let drops = Drops::new()?;
        let before = drops.value();
        OtherTask::start(move || {
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

    /// In a preemptible kernel the preempt count does not show an RCU reader. Sleeping there warns.
    #[test]
    fn the_last_handle_may_be_dropped_by_a_reader_of_rcu() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let _ = domain.start_poll();

        let reader = rcu::read_lock();
        drop(domain);
        drop(reader);
        Ok(())
    }

    /// Returns whether `wait` waits for a guard that another task holds.
    fn waits_for_a_guard(
        domain: &Domain<FastUpDown>,
        wait: impl FnOnce() -> Result,
    ) -> Result<bool> {
        let guard = domain.clone().into_down_read();
        let drops = Drops::new()?;
        let before = drops.value();
        OtherTask::start(move || {
            nap();
            drop(before);
            drop(guard);
        })?;

        wait()?;
        Ok(drops.count() == 1)
    }

    #[test]
    fn all_waits_wait_for_guards() -> Result {
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
        // `barrier()` waits for items that were passed to `free_later()`.
        assert!(waits(&|| {
            retire(&pointer, 2)?.free_later();
            domain.barrier();
            Ok(())
        })?);
        Ok(())
    }

    #[test]
    fn state_elapses_after_synchronize() -> Result {
        let domain: Domain<Normal> = new_domain!()?;

        let cookie = domain.get_state();
        assert!(!cookie.poll());
        domain.synchronize();
        assert!(cookie.poll());
        Ok(())
    }
}
