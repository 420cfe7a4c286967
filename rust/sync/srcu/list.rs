// SPDX-License-Identifier: GPL-2.0

//! A list that writers change while readers walk it.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::Opaque, //
};

use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    ptr::NonNull, //
};

use crate::{
    bindings,
    lib::unique::unique_id,
    sync::mutex::{
        Mutex,
        MutexGuard, //
    }, //
};

use super::{
    domain::Domain,
    flavor::Flavor,
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

/// Creates a [`List`] initialiser with a newly-created lock class for the writers' lock.
#[doc(hidden)]
#[macro_export]
macro_rules! new_srcu_list {
    ($domain:expr $(,)?) => {
        $crate::sync::srcu::List::new(
            $domain,
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_srcu_list as new_list;

/// A list of items that readers of a domain see.
///
/// # Invariants
///
/// - `head` is a list of links of nodes of items. It changes only under the lock of `writers`. A
///   node is on at most one list, and at most once.
/// - A removed node is a [`Retired`] item of `domain`.
/// - An [`Entry`] with this `id` exists only for nodes on the list.
/// - `pending` is that of `Node::<T>::free()`.
#[pin_data(PinnedDrop)]
pub struct List<T, F: Flavor> {
    #[pin]
    pub(super) head: Opaque<bindings::list_head>,
    id: u64,
    domain: Domain<F>,
    pending: Arc<Pending>,
    #[pin]
    writers: Mutex,
    /// Invariant in `T`: a writer with a shorter-lived `T` must not insert for readers of a
    /// longer-lived `T`.
    _owns: PhantomData<UnsafeCell<Item<T>>>,
}

// SAFETY: A list owns items and a handle of a domain.
unsafe impl<T: Send, F: Flavor> Send for List<T, F> {}

// SAFETY: Many readers get `&T`s, hence `Sync`. A writer in any task gets an item, hence `Send`.
// Readers may walk RCU lists of C while writers change them.
unsafe impl<T: Send + Sync, F: Flavor> Sync for List<T, F> {}

/// The right to remove an item from a [`List`].
///
/// An item whose entry was dropped stays until the list is dropped.
///
/// # Invariants
///
/// `node` is on the list with this `id`, if the list still lives.
#[must_use = "without it the item stays on the list"]
pub struct Entry<T> {
    node: NonNull<Node<T>>,
    list_id: u64,
}

// SAFETY: Only `ListWriter::remove()` uses `node`. A task with a writer may own all items of the
// list.
unsafe impl<T> Send for Entry<T> {}

// SAFETY: An `&Entry` has no methods that use `node`.
unsafe impl<T> Sync for Entry<T> {}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

impl<T, F: Flavor> List<T, F> {
    /// Creates an empty list.
    ///
    /// Prefer [`new_list!`], which supplies the name and the class of the writers' lock.
    ///
    /// Fails with [`ENOMEM`].
    ///
    /// Context: Process context. May sleep.
    pub fn new(
        domain: Domain<F>,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            // INVARIANT: The list is empty.
            head <- Opaque::ffi_init(|slot: *mut bindings::list_head| {
                let empty = bindings::list_head { next: slot, prev: slot };
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`.
                unsafe { slot.write(empty) };
            }),
            // INVARIANT: The `id` is new, so no entry has it.
            id: unique_id(),
            domain,
            // INVARIANT: See `pending::of()`.
            pending: pending::of(Node::<T>::free as *const () as usize)?,
            writers <- Mutex::new(name, key),
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

    /// Takes the writers' lock.
    ///
    /// Context: Process context. May sleep.
    pub fn lock(&self) -> ListWriter<'_, T, F> {
        ListWriter {
            list: self,
            _lock: self.writers.lock(),
        }
    }
}

/// Returns the node that contains `links`.
///
/// # Safety
///
/// `links` must be the `links` field of a `Node<T>`.
#[inline]
pub(super) unsafe fn node_of<T>(links: *mut bindings::list_head) -> *mut Node<T> {
    // SAFETY: By the contract of this function.
    unsafe { kernel::container_of!(Opaque::cast_from(links).cast_mut(), Node<T>, links) }
}

#[pinned_drop]
impl<T, F: Flavor> PinnedDrop for List<T, F> {
    /// Frees all items on the list. No reader is left, because readers borrow the list.
    fn drop(self: Pin<&mut Self>) {
        let head = self.head.get();
        // SAFETY: `head` is initialised by the type invariants, and nothing else uses it now.
        let mut links = unsafe { (*head).next };

        while links != head {
            // SAFETY: By the type invariants `links` is in a node from `into_raw()`.
            let node: *mut Node<T> = unsafe { node_of(links) };
            // SAFETY: As above.
            links = unsafe { (*links).next };
            // SAFETY: As above. Nothing finds the node now: no reader and no writer is left, and
            // entries of this list are useless without the list.
            drop(unsafe { Item::from_raw(NonNull::new_unchecked(node)) });
        }
    }
}

/// The writers' lock of a [`List`]: the holder may insert and remove items.
///
/// While the lock is held, do not wait for a grace period, and do not drop a [`Retired`] item, if a
/// reader may wait for this lock with a guard (deadlock).
pub struct ListWriter<'a, T, F: Flavor> {
    list: &'a List<T, F>,
    _lock: MutexGuard<'a>,
}

impl<T, F: Flavor> ListWriter<'_, T, F> {
    /// Inserts an item at the front.
    ///
    /// Context: Process context. Never sleeps. C: `list_add_rcu()` in `include/linux/rculist.h`.
    pub fn push_front(&mut self, item: Item<T>) -> Entry<T> {
        let node = item.into_raw();
        // SAFETY: The node is allocated.
        let links = unsafe { &raw const (*node.as_ptr()).links }
            .cast_mut()
            .cast();

        // SAFETY: `head` is initialised by the type invariants and the lock is held. `links` is
        // valid for writes, as the caller owned the item.
        // INVARIANT: The node is on this list only.
        unsafe { bindings::list_add_rcu(links, self.list.head.get()) };
        self.entry(node)
    }

    /// Inserts an item at the back.
    ///
    /// Context: Process context. Never sleeps. C: `list_add_tail_rcu()` in
    /// `include/linux/rculist.h`.
    pub fn push_back(&mut self, item: Item<T>) -> Entry<T> {
        let node = item.into_raw();
        // SAFETY: The node is allocated.
        let links = unsafe { &raw const (*node.as_ptr()).links }
            .cast_mut()
            .cast();

        // SAFETY: `head` is initialised by the type invariants and the lock is held. `links` is
        // valid for writes, as the caller owned the item.
        // INVARIANT: The node is on this list only.
        unsafe { bindings::list_add_tail_rcu(links, self.list.head.get()) };
        self.entry(node)
    }

    /// Removes an item for new readers, and returns it. Earlier readers may still see it.
    ///
    /// Returns the entry as an error if it is not of this list.
    ///
    /// Context: Process context. Never sleeps. C: `list_del_rcu()` in `include/linux/rculist.h`.
    pub fn remove(&mut self, entry: Entry<T>) -> Result<Retired<T, F>, Entry<T>> {
        if entry.list_id != self.list.id {
            return Err(entry);
        }
        let node = entry.node;
        // SAFETY: By the invariants of the entry the node is on this list, which is alive.
        let links = unsafe { &raw const (*node.as_ptr()).links }
            .cast_mut()
            .cast();
        // SAFETY: As above. The lock is held.
        // INVARIANT: The only entry of the node is consumed. The node becomes a `Retired` item.
        unsafe { bindings::list_del_rcu(links) };
        // SAFETY:
        // - By the type invariants the node is from `into_raw()`. New readers do not find it.
        //   Writers do not find it, as its entry is consumed.
        // - `pending` is right by the type invariants.
        Ok(unsafe { Retired::new(node, self.list.domain.clone(), self.list.pending.clone()) })
    }

    /// Returns the entry of a node that was just inserted.
    fn entry(&self, node: NonNull<Node<T>>) -> Entry<T> {
        // INVARIANT: The node stays on this list until the entry is used to remove it, or the list
        // is dropped. After the drop no list has this `id`, because an `id` is never used again.
        Entry {
            node,
            list_id: self.list.id,
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_list)]
mod tests {
    use super::*;

    use crate::sync::mutex::keeps_owner;

    use super::super::{
        new_domain,
        testing::{
            nap,
            Drops,
            OtherTask, //
        },
        Fast,
        Normal, //
    };

    /// Returns the numbers on a list, as decimal digits.
    fn digits(list: &List<u32, Normal>) -> u32 {
        list.read().walk().fold(0, |sum, digit| 10 * sum + digit)
    }

    fn item(digit: u32) -> Result<Item<u32>> {
        Ok(Item::new(digit, GFP_KERNEL)?)
    }

    #[test]
    fn items_keep_their_order() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let list = KBox::try_pin_init(new_list!(domain), GFP_KERNEL)?;
        assert_eq!(digits(&list), 0);

        let two = list.lock().push_back(item(2)?);
        let three = list.lock().push_back(item(3)?);
        let one = list.lock().push_front(item(1)?);
        assert_eq!(digits(&list), 123);

        let Ok(two) = list.lock().remove(two) else {
            return Err(EINVAL);
        };
        assert_eq!(digits(&list), 13);
        // A removed item can be inserted again.
        let two = list.lock().push_back(two.wait());
        assert_eq!(digits(&list), 132);

        for (entry, left) in [(one, 32), (two, 3), (three, 0)] {
            let removed = list.lock().remove(entry);
            assert!(removed.is_ok());
            assert_eq!(digits(&list), left);
        }
        Ok(())
    }

    #[test]
    fn a_writer_has_a_reference_to_its_task() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let list: Pin<KBox<List<u32, Normal>>> = KBox::try_pin_init(new_list!(domain), GFP_KERNEL)?;
        assert!(keeps_owner(|| list.lock()));
        Ok(())
    }

    #[test]
    fn walk_survives_removal_of_its_item() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let list = KBox::try_pin_init(new_list!(domain.clone()), GFP_KERNEL)?;
        let drops = Drops::new()?;
        let mut entries = KVec::new();
        for digit in 0..5_u32 {
            let item = Item::new((digit, drops.value()), GFP_KERNEL)?;
            entries.push(Some(list.lock().push_back(item)), GFP_KERNEL)?;
        }
        let mut retired = KVec::new();
        let guard = domain.read_lock();
        let mut walk = list.walk(&guard)?;

        assert!(walk.next().is_some_and(|(digit, _)| *digit == 0));
        // Remove the current item and its successor.
        for index in [0, 1] {
            let Some(entry) = entries.get_mut(index).and_then(Option::take) else {
                return Err(EINVAL);
            };
            let removed = list.lock().remove(entry).map_err(|_| EINVAL)?;
            retired.push(removed, GFP_KERNEL)?;
        }
        // The first removed item still leads to the second.
        assert_eq!(walk.fold(0, |sum, (digit, _)| 10 * sum + digit), 1234);
        assert_eq!(drops.count(), 0);
        drop(guard);
        drop(retired);
        assert_eq!(drops.count(), 2);
        drop(list);
        assert_eq!(drops.count(), 5);
        Ok(())
    }

    #[test]
    fn guards_and_entries_of_others_are_rejected() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let other: Domain<Fast> = new_domain!()?;
        let list = KBox::try_pin_init(new_list!(domain.clone()), GFP_KERNEL)?;
        let second = KBox::try_pin_init(new_list!(domain), GFP_KERNEL)?;
        let entry = list.lock().push_back(Item::new((), GFP_KERNEL)?);

        assert!(list.walk(&other.read_lock()).is_err());
        let Err(entry) = second.lock().remove(entry) else {
            return Err(EINVAL);
        };
        // The second list may be at the address of a dropped list.
        drop(list);
        assert!(second.lock().remove(entry).is_err());
        Ok(())
    }

    #[test]
    fn readers_and_writers_run_concurrently() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let list = Arc::pin_init(new_list!(domain.clone()), GFP_KERNEL)?;
        let drops = Drops::new()?;
        let _stays = list
            .lock()
            .push_back(Item::new((7, drops.value()), GFP_KERNEL)?);

        let theirs = list.clone();
        let (one, other) = (drops.value(), drops.value());
        let writer = OtherTask::start(move || {
            let mut values = [Some((1, one)), Some((2, other))];
            for round in 0..10 {
                let Some(slot) = values.get_mut(round % 2) else {
                    return;
                };
                let Some(Ok(item)) = slot.take().map(|value| Item::new(value, GFP_KERNEL)) else {
                    return;
                };
                let entry = theirs.lock().push_front(item);
                let removed = theirs.lock().remove(entry);
                *slot = removed.ok().map(|retired| retired.wait().into_inner());
            }
        })?;
        while !writer.is_done() {
            for _ in 0..50 {
                let guard = domain.read_lock();
                let seen = list.walk(&guard)?;
                // The permanent item, and at most one temporary item.
                let sum = seen.fold(0, |sum, (value, _)| sum + value);
                assert!([7, 8, 9].contains(&sum));
            }
            // Without preemption, no other task runs here unless this task sleeps.
            nap();
        }
        writer.wait();
        assert_eq!(drops.count(), 2);
        Ok(())
    }
}
