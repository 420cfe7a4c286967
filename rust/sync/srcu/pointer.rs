// SPDX-License-Identifier: GPL-2.0

//! A pointer to an item that writers replace while readers follow the pointer.

use kernel::{
    prelude::*,
    sync::{
        atomic,
        Arc,
        LockClassKey, //
    }, //
};

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    }, //
};

use crate::sync::mutex::{
    Mutex,
    MutexGuard, //
};

use super::{
    domain::Domain,
    flavor::Flavor,
    guard::{
        self,
        ReadSection,
        WrongDomain, //
    },
    item::{
        Item,
        Node, //
    },
    pending::{
        self,
        Pending, //
    },
    retired::Retired, //
};

mod current;
mod read;

use current::Current;

pub use read::PointerGuard;

/// Creates a [`Pointer`] initialiser with a newly-created lock class for the writers' lock.
#[doc(hidden)]
#[macro_export]
macro_rules! new_srcu_pointer {
    ($domain:expr, $item:expr $(,)?) => {
        $crate::sync::srcu::Pointer::new(
            $domain,
            $item,
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_srcu_pointer as new_pointer;

/// A pointer to a value that readers of a domain see.
///
/// # Invariants
///
/// - `current` is the node of an [`Item`]. It is replaced only under the lock of `writers`.
/// - A replaced node is a [`Retired`] item of `domain`.
/// - `pending` is that of `Node::<T>::free()`.
#[pin_data(PinnedDrop)]
pub struct Pointer<T, F: Flavor> {
    current: Current<Node<T>>,
    domain: Domain<F>,
    pending: Arc<Pending>,
    #[pin]
    writers: Mutex,
    _owns: PhantomData<Item<T>>,
}

// SAFETY: A pointer owns an item and a handle of a domain.
unsafe impl<T: Send, F: Flavor> Send for Pointer<T, F> {}

// SAFETY: Many readers get an `&T`, hence `Sync`. A writer in any task gets an item, hence `Send`.
// `current` is atomic.
unsafe impl<T: Send + Sync, F: Flavor> Sync for Pointer<T, F> {}

impl<T, F: Flavor> Pointer<T, F> {
    /// Creates a pointer to `item`.
    ///
    /// Prefer [`new_pointer!`], which supplies the name and the class of the writers' lock.
    ///
    /// Fails with [`ENOMEM`].
    ///
    /// Context: Process context. May sleep.
    pub fn new(
        domain: Domain<F>,
        item: Item<T>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: See `pending::of()`.
            pending: pending::of(Node::<T>::free as *const () as usize)?,
            domain,
            writers <- Mutex::new(name, key),
            // INVARIANT: See above.
            current: Current::new(item.into_raw()),
            _owns: PhantomData,
        })
    }

    /// Returns the domain of the readers.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn domain(&self) -> &Domain<F> {
        &self.domain
    }

    /// Returns the current value.
    ///
    /// A writer may replace the value meanwhile. The returned reference stays valid while the guard
    /// lives.
    ///
    /// Fails with [`WrongDomain`] unless `section` is of this pointer's domain.
    ///
    /// Context: The context of the guard. Never sleeps. Costs a load and a comparison. C:
    /// `srcu_dereference()` in `include/linux/srcu.h`.
    #[inline]
    pub fn load<'a>(&'a self, section: &'a impl ReadSection<F>) -> Result<&'a T, WrongDomain> {
        guard::check(&self.domain, section)?;
        // SAFETY: `section` is of this domain, and lives as long as the reference.
        Ok(unsafe { self.dereference() })
    }

    /// Takes a guard, and returns it with the current value.
    ///
    /// Context: As [`Domain::read_lock()`].
    #[inline]
    pub fn read(&self) -> PointerGuard<'_, T, F> {
        let guard = self.domain.read_lock();
        // SAFETY: `guard` is of this domain, and the reference is not used after this function.
        let value = NonNull::from(unsafe { self.dereference() });
        // SAFETY: The value was loaded under `guard`, and nothing writes to it.
        unsafe { PointerGuard::new(value, guard) }
    }

    /// Takes the writers' lock.
    ///
    /// Context: Process context. May sleep.
    pub fn lock(&self) -> PointerWriter<'_, T, F> {
        PointerWriter {
            pointer: self,
            _lock: self.writers.lock(),
        }
    }

    /// Follows the pointer.
    ///
    /// # Safety
    ///
    /// While the reference lives, a guard of `domain` that was taken before this call must be held,
    /// or the lock of `writers`, or `self` must be borrowed mutably.
    #[inline]
    unsafe fn dereference<'a>(&self) -> &'a T {
        let node = self.current.load();
        // SAFETY: By the type invariants `node` is that of an item. A replaced node is freed only
        // after a grace period, which waits for the guard. Only `value` is borrowed, and nothing
        // writes to it. Writers follow the pointer only while they do not replace it.
        unsafe { &(*node.as_ptr()).value }
    }
}

#[pinned_drop]
impl<T, F: Flavor> PinnedDrop for Pointer<T, F> {
    /// Frees the current item. No reader is left, because readers borrow the pointer.
    fn drop(self: Pin<&mut Self>) {
        let node = self.current.load();
        // SAFETY: By the type invariants it is from `into_raw()`.
        let item = unsafe { Item::from_raw(node) };
        drop(item);
    }
}

/// The writers' lock of a [`Pointer`]: the holder may replace the item.
///
/// While the lock is held, do not wait for a grace period, and do not drop a [`Retired`] item, if a
/// reader may wait for this lock with a guard (deadlock).
pub struct PointerWriter<'a, T, F: Flavor> {
    pointer: &'a Pointer<T, F>,
    _lock: MutexGuard<'a>,
}

impl<T, F: Flavor> PointerWriter<'_, T, F> {
    /// Replaces the value for new readers, and returns the old item, which earlier readers may
    /// still see.
    ///
    /// Context: Process context. Never sleeps. C: `rcu_replace_pointer()` in
    /// `include/linux/rcupdate.h`.
    pub fn replace(&mut self, item: Item<T>) -> Retired<T, F> {
        // INVARIANT: The lock is held. The old node becomes a `Retired` item.
        let old = self.pointer.current.replace(item.into_raw());

        // SAFETY:
        // - By the type invariants the old node is from `into_raw()`. New readers find the new
        //   node. References of writers borrow `self`, so none is left.
        // - `pending` is right by the type invariants.
        unsafe {
            Retired::new(
                old,
                self.pointer.domain.clone(),
                self.pointer.pending.clone(),
            )
        }
    }
}

impl<T, F: Flavor> PointerWriter<'_, T, F> {
    /// Swaps the value with `item`. When this returns, no reader sees the old value.
    ///
    /// Use it to change a value that is expensive to build, while `item` takes its place. Allocates
    /// nothing.
    ///
    /// The caller must not hold a guard of the domain (deadlock).
    ///
    /// Context: Process context. May sleep. Waits for a grace period. C: `rcu_replace_pointer()` in
    /// `include/linux/rcupdate.h`, `synchronize_srcu()` in `kernel/rcu/srcutree.c`.
    pub fn swap(&mut self, item: &mut Item<T>) {
        // SAFETY: `item` is valid for reads. It is overwritten below before anything uses it;
        // nothing in between returns early.
        let new = unsafe { ptr::read(item) };

        // INVARIANT: The lock is held. The old node is not passed on before the grace period below.
        let old = self.pointer.current.replace(new.into_raw());
        self.pointer.domain.synchronize();
        // SAFETY:
        // - By the type invariants of the pointer the old node is from `into_raw()`. New readers
        //   find the new node, and the grace period has waited for old readers. References of
        //   writers borrow `self`, so none is left.
        // - `item` is valid for writes, and its old content was moved out above.
        unsafe { ptr::write(item, Item::from_raw(old)) };
    }
}

impl<T, F: Flavor> Deref for PointerWriter<'_, T, F> {
    type Target = T;

    /// Returns the current value. The lock excludes other writers.
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: The lock is held, and `replace()` borrows `self` mutably.
        unsafe { self.pointer.dereference() }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_pointer)]
mod tests {
    use super::*;

    use crate::sync::mutex::keeps_owner;

    use kernel::sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    };

    use super::super::{
        new_domain,
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

    #[test]
    fn a_writer_has_a_reference_to_its_task() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let pointer = pointer(&domain, 1)?;
        assert!(keeps_owner(|| pointer.lock()));
        Ok(())
    }

    #[test]
    fn loaded_value_stays_valid() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let item = Item::new(1, GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;
        let new = Item::new(2, GFP_KERNEL)?;

        let guard = pointer.domain().read_lock();
        let old = pointer.load(&guard)?;
        let own = pointer.read();
        pointer.lock().replace(new).free_later();

        assert_eq!(*old, 1);
        assert_eq!(*own, 1);
        assert_eq!(*pointer.load(&guard)?, 2);
        assert_eq!(*pointer.read(), 2);
        Ok(())
    }

    #[test]
    fn swapped_out_value_has_no_readers() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let first = Item::new(Atomic::new(1), GFP_KERNEL)?;
        let pointer = Arc::pin_init(new_pointer!(domain, first), GFP_KERNEL)?;
        let entered = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut item = Item::new(Atomic::new(2), GFP_KERNEL)?;

        let (theirs, their_pointer) = (entered.clone(), pointer.clone());
        let reader = OtherTask::start(move || {
            let value = their_pointer.read();
            theirs.store(1, Release);
            for _ in 0..5 {
                nap();
            }
            // The last access of the reader.
            value.store(3, Release);
        })?;
        while entered.load(Acquire) == 0 {
            nap();
        }
        pointer.lock().swap(&mut item);

        assert_eq!(item.load(Acquire), 3);
        assert_eq!(pointer.read().load(Acquire), 2);
        reader.wait();

        // Swap back.
        pointer.lock().swap(&mut item);
        assert_eq!(item.load(Acquire), 2);
        assert_eq!(pointer.read().load(Acquire), 3);
        Ok(())
    }

    #[test]
    fn guard_of_another_domain_fails_to_load() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let other: Domain<Fast> = new_domain!()?;
        let item = Item::new((), GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain, item), GFP_KERNEL)?;

        assert_eq!(pointer.load(&other.read_lock()), Err(WrongDomain));
        assert_eq!(Error::from(WrongDomain), EINVAL);
        Ok(())
    }

    #[test]
    fn writers_see_the_current_value_and_exclude_each_other() -> Result {
        const ROUNDS: u32 = 200;
        let domain: Domain<Normal> = new_domain!()?;
        let item = Item::new(0, GFP_KERNEL)?;
        let pointer = Arc::pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;
        let add = |pointer: Arc<Pointer<u32, Normal>>| {
            move || {
                for _ in 0..ROUNDS {
                    let Ok(mut item) = Item::new(0, GFP_KERNEL) else {
                        return;
                    };
                    let mut writer = pointer.lock();
                    *item = *writer + 1;
                    writer.replace(item).free_later();
                }
            }
        };

        let first = OtherTask::start(add(pointer.clone()))?;
        let second = OtherTask::start(add(pointer.clone()))?;
        while !(first.is_done() && second.is_done()) {
            for _ in 0..50 {
                // The value is never torn or freed.
                assert!(*pointer.read() <= 2 * ROUNDS);
            }
            // Without preemption, no other task runs here unless this task sleeps.
            nap();
        }
        first.wait();
        second.wait();
        assert_eq!(*pointer.read(), 2 * ROUNDS);
        Ok(())
    }

    /// A callback and a polled grace period are in flight.
    #[test]
    fn handles_may_be_dropped_in_any_order() -> Result {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let drops = Drops::new()?;
            let domain: Domain<FastUpDown> = new_domain!()?;
            let pointer = pointer(&domain, drops.value())?;
            let guard = domain.clone().into_down_read();
            retire(&pointer, drops.value())?.free_later();
            let _ = domain.start_poll();
            let (mut domain, mut pointer, mut guard) = (Some(domain), Some(pointer), Some(guard));

            for what in order {
                match what {
                    0 => drop(domain.take()),
                    1 => drop(pointer.take()),
                    _ => drop(guard.take()),
                }
            }
            // The last handle, in any order, has waited for the callback.
            assert_eq!(drops.count(), 2);
        }
        Ok(())
    }

    #[test]
    fn drop_frees_the_current_value() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let item = Item::new(drops.value(), GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;

        assert_eq!(drops.count(), 0);
        drop(pointer);
        assert_eq!(drops.count(), 1);
        drop(Item::new(drops.value(), GFP_KERNEL)?);
        assert_eq!(drops.count(), 2);
        Ok(())
    }
}
