// SPDX-License-Identifier: GPL-2.0

//! A pointer to an item, which readers follow while writers replace it.

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
        Guard,
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

use current::Current;

/// Creates a [`Pointer`] initialiser, whose writers' lock has a newly-created lock class.
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
/// - `current` is the node of an [`Item`]. It is replaced under the lock of `writers` only.
/// - What it was replaced for is a [`Retired`] item of `domain`.
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

// SAFETY: It owns an item and a handle of a domain.
unsafe impl<T: Send, F: Flavor> Send for Pointer<T, F> {}

// SAFETY: It gives many readers an `&T`, hence `Sync`, and a writer of any task an item, hence
// `Send`. `current` is atomic.
unsafe impl<T: Send + Sync, F: Flavor> Sync for Pointer<T, F> {}

impl<T, F: Flavor> Pointer<T, F> {
    /// Creates a pointer to `item`.
    ///
    /// Prefer [`new_pointer!`], which supplies name and class of the writers' lock.
    ///
    /// Fails with [`ENOMEM`].
    ///
    /// Context: process. Sleeps.
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

    /// Returns the domain whose readers may follow the pointer.
    #[inline]
    pub fn domain(&self) -> &Domain<F> {
        &self.domain
    }

    /// Returns the current value.
    ///
    /// It may be replaced meanwhile, and stays as it is as long as the guard.
    ///
    /// Fails with [`WrongDomain`] unless `section` is of this pointer's domain.
    ///
    /// Context: as the guard. Never sleeps. C: `srcu_dereference()`, and a comparison.
    #[inline]
    pub fn load<'a>(&'a self, section: &'a impl ReadSection<F>) -> Result<&'a T, WrongDomain> {
        guard::check(&self.domain, section)?;
        // SAFETY: `section` is of this domain, and lives as long as the reference.
        Ok(unsafe { self.dereference() })
    }

    /// Takes a guard, and returns it with the current value.
    ///
    /// Context: as [`Domain::read_lock()`]. Never sleeps.
    #[inline]
    pub fn read(&self) -> PointerGuard<'_, T, F> {
        let guard = self.domain.read_lock();
        // SAFETY: `guard` is of this domain, and the reference is not used after this function.
        let value = NonNull::from(unsafe { self.dereference() });
        // INVARIANT: The value was loaded under `guard`.
        PointerGuard {
            value,
            _guard: guard,
            _borrows: PhantomData,
        }
    }

    /// Takes the lock that only one writer at a time can have.
    ///
    /// Context: process. Sleeps.
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
    /// Until the reference is gone there must be a guard of `domain` that was there before this
    /// call, or the lock of `writers`, or `self` is borrowed mutably.
    #[inline]
    unsafe fn dereference<'a>(&self) -> &'a T {
        let node = self.current.load();
        // SAFETY: By the type invariants it is an item's node, and if it is replaced meanwhile, it
        // is not freed before the end of a grace period, which waits for the guard. Only `value` is
        // borrowed, and nobody writes to that. Writers only follow it while it is not replaced.
        unsafe { &(*node.as_ptr()).value }
    }
}

#[pinned_drop]
impl<T, F: Flavor> PinnedDrop for Pointer<T, F> {
    /// Frees the current item. There is nobody to wait for, as readers borrow the pointer.
    fn drop(self: Pin<&mut Self>) {
        let node = self.current.load();
        // SAFETY: By the type invariants it is from `into_raw()`.
        let item = unsafe { Item::from_raw(node) };
        drop(item);
    }
}

/// A guard, and the value that a [`Pointer`] had when it was taken.
///
/// # Invariants
///
/// `value` is valid for reads as long as `_guard`, and nobody writes to it.
#[must_use = "the critical section ends at once"]
pub struct PointerGuard<'a, T, F: Flavor> {
    /// Not a reference: who drops this drops `_guard`, after which a writer may free the value,
    /// while a reference in an argument must be valid until the function returns.
    value: NonNull<T>,
    _guard: Guard<'a, F>,
    _borrows: PhantomData<&'a T>,
}

impl<T, F: Flavor> Deref for PointerGuard<'_, T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants, and `_guard` is borrowed as long as the reference.
        unsafe { self.value.as_ref() }
    }
}

/// The right to replace what a [`Pointer`] points to. Others wait for it.
///
/// Do not wait for a grace period, nor drop a [`Retired`] item, while readers may wait for this
/// lock with a guard.
pub struct PointerWriter<'a, T, F: Flavor> {
    pointer: &'a Pointer<T, F>,
    _lock: MutexGuard<'a>,
}

impl<T, F: Flavor> PointerWriter<'_, T, F> {
    /// Replaces the value for new readers, and returns what old ones may still see.
    ///
    /// Context: process. Never sleeps. C: `rcu_replace_pointer()`.
    pub fn replace(&mut self, item: Item<T>) -> Retired<T, F> {
        // INVARIANT: The lock is held. What was there becomes a `Retired` item.
        let old = self.pointer.current.replace(item.into_raw());

        // SAFETY:
        // - By the type invariants it was from `into_raw()`. Readers that come find the new one.
        //   References of writers borrow `self`, so they are gone.
        // - By the type invariants.
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
    /// Swaps the value with `item`, which nobody else sees any more when this returns.
    ///
    /// Use it to change a value that is not worth making anew, with another that stands in for it.
    /// Allocates nothing.
    ///
    /// Context: process, without a guard of the domain. Sleeps for a grace period.
    /// C: `rcu_replace_pointer()`, and `synchronize_srcu()`.
    pub fn swap(&mut self, item: &mut Item<T>) {
        // SAFETY: `item` is valid for reads, and is overwritten below before anybody uses it:
        // nothing in between returns.
        let new = unsafe { ptr::read(item) };

        // INVARIANT: The lock is held. What was there goes nowhere before the grace period below.
        let old = self.pointer.current.replace(new.into_raw());
        self.pointer.domain.synchronize();
        // SAFETY:
        // - By the type invariants of the pointer it was from `into_raw()`. Readers that came since
        //   found the new one, and those from before are gone. References of writers borrow
        //   `self`, so they are gone, too.
        // - `item` is valid for writes, and what is in it was moved out above.
        unsafe { ptr::write(item, Item::from_raw(old)) };
    }
}

impl<T, F: Flavor> Deref for PointerWriter<'_, T, F> {
    type Target = T;

    /// Returns the current value, which nobody else replaces.
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
            Elsewhere, //
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
    fn readers_keep_what_they_loaded() -> Result {
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
    fn what_was_swapped_out_has_no_readers() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let first = Item::new(Atomic::new(1), GFP_KERNEL)?;
        let pointer = Arc::pin_init(new_pointer!(domain, first), GFP_KERNEL)?;
        let entered = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut item = Item::new(Atomic::new(2), GFP_KERNEL)?;

        let (theirs, their_pointer) = (entered.clone(), pointer.clone());
        let reader = Elsewhere::start(move || {
            let value = their_pointer.read();
            theirs.store(1, Release);
            for _ in 0..5 {
                nap();
            }
            // The last thing that is done with it.
            value.store(3, Release);
        })?;
        while entered.load(Acquire) == 0 {
            nap();
        }
        pointer.lock().swap(&mut item);

        assert_eq!(item.load(Acquire), 3);
        assert_eq!(pointer.read().load(Acquire), 2);
        reader.wait();

        // And back.
        pointer.lock().swap(&mut item);
        assert_eq!(item.load(Acquire), 2);
        assert_eq!(pointer.read().load(Acquire), 3);
        Ok(())
    }

    #[test]
    fn a_guard_of_another_domain_is_refused() -> Result {
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

        let first = Elsewhere::start(add(pointer.clone()))?;
        let second = Elsewhere::start(add(pointer.clone()))?;
        while !(first.is_done() && second.is_done()) {
            for _ in 0..50 {
                // Never a torn or freed value.
                assert!(*pointer.read() <= 2 * ROUNDS);
            }
            // Without preemption nobody else runs here otherwise.
            nap();
        }
        first.wait();
        second.wait();
        assert_eq!(*pointer.read(), 2 * ROUNDS);
        Ok(())
    }

    /// With a callback and a polled grace period on their way.
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
            // The last handle has waited for the callback, whoever had it.
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
