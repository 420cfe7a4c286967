// SPDX-License-Identifier: GPL-2.0

//! The list, insertion and removal.

use kernel::{
    alloc::Flags,
    ffi::c_ulong,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        LockClassKey, //
    },
    time::msecs_to_jiffies,
    types::Opaque, //
};

use core::{
    cell::UnsafeCell,
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use crate::{
    bindings,
    lib::unique::unique_id,
    sync::{
        lock_class::LockClass,
        mutex::Mutex, //
    }, //
};

use super::{
    node::{
        init_done,
        node_of,
        Node, //
    },
    visits::Visits, //
};

/// The time after which [`List::remove()`] logs an error.
const WARN_TIMEOUT_MS: u32 = 10_000;

/// Creates a [`List`] initialiser with a newly-created lock class.
#[doc(hidden)]
#[macro_export]
macro_rules! new_rcu_list {
    () => {
        $crate::sync::rcu_list::List::new(
            ::kernel::optional_name!(),
            ::kernel::static_lock_class!(),
        )
    };
}
pub use new_rcu_list as new_list;

/// A list of reference-counted values.
///
/// # Invariants
///
/// - `head` is a list of the `links` of nodes. It changes only under the lock of `writers`.
/// - A node is on the list until its count is 0. Then the waiter in `remove()` unlinks it.
/// - An [`Entry`] with this `id` exists for a node only while its count includes the 1 for being on
///   the list.
#[pin_data(PinnedDrop)]
pub struct List<T> {
    #[pin]
    pub(super) head: Opaque<bindings::list_head>,
    id: u64,
    /// Dropped before `writers`, which owns the lock class of both.
    #[pin]
    pub(super) visits: Visits,
    #[pin]
    writers: Mutex,
    /// Invariant in `T`: a task with a shorter-lived `T` must not insert for walks of a
    /// longer-lived `T`.
    _owns: PhantomData<UnsafeCell<T>>,
}

// SAFETY: A list owns its values.
unsafe impl<T: Send> Send for List<T> {}

// SAFETY: Many walks get `&T`s, hence `Sync`. Any task may get the values, hence `Send`.
unsafe impl<T: Send + Sync> Sync for List<T> {}

/// The right to remove a value from a [`List`].
///
/// A value whose entry was dropped stays until the list is dropped.
///
/// # Invariants
///
/// `node` is on the list with this `id`, if the list still lives. No other entry of the node
/// exists.
#[must_use = "without it the value stays on the list"]
pub struct Entry<T> {
    node: NonNull<Node<T>>,
    list_id: u64,
}

// SAFETY: Only `List::remove()` uses `node`. A task with the list may own its values.
unsafe impl<T> Send for Entry<T> {}

// SAFETY: An `&Entry` has no methods that use `node`.
unsafe impl<T> Sync for Entry<T> {}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

/// The error of a failed insertion, with the value.
///
/// Converts to [`ENOMEM`].
pub struct InsertError<T> {
    /// The value that was to be inserted.
    pub value: T,
}

impl<T> From<InsertError<T>> for Error {
    fn from(_: InsertError<T>) -> Self {
        ENOMEM
    }
}

impl<T> List<T> {
    /// Creates an empty list.
    ///
    /// Prefer [`new_list!`], which supplies the name and the class of the lock.
    ///
    /// Context: Process context. May sleep.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        let class = LockClass::new(name, key);
        // SAFETY: Only `visits` uses the name, and `visits` is dropped before `writers`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.visits_key() };

        pin_init!(Self {
            // INVARIANT: The list is empty.
            head <- Opaque::ffi_init(|slot: *mut bindings::list_head| {
                let empty = bindings::list_head { next: slot, prev: slot };
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`.
                unsafe { slot.write(empty) };
            }),
            // INVARIANT: The `id` is new, so no entry has it.
            id: unique_id(),
            // SAFETY: `writers` owns the class, and is dropped after `visits`.
            visits <- unsafe { Visits::new(name, key) },
            writers <- Mutex::with_class(class),
            _owns: PhantomData,
        })
    }

    /// Returns the lock class of the list, for a walk that is at a value.
    #[inline]
    pub(super) fn class(&self) -> LockClass {
        self.writers.class()
    }

    /// Inserts a value at the front.
    ///
    /// Fails if there is no memory, and returns the value in the error.
    ///
    /// Context: Process context. May sleep. C: `list_add_rcu()` in `include/linux/rculist.h`.
    pub fn push_front(&self, value: T, flags: Flags) -> Result<Entry<T>, InsertError<T>> {
        let Ok(slot) = KBox::<Node<T>>::new_uninit(flags) else {
            return Err(InsertError { value });
        };
        let node = NonNull::from(KBox::leak(KBox::write(
            slot,
            Node {
                rcu: Opaque::uninit(),
                links: Opaque::uninit(),
                count: Opaque::uninit(),
                is_leaving: Atomic::new(false),
                done: Opaque::uninit(),
                value: ManuallyDrop::new(value),
            },
        )));
        let raw = node.as_ptr();
        // SAFETY: The node was just allocated.
        let (count, done, links) = unsafe {
            (
                Opaque::cast_into(&raw const (*raw).count),
                Opaque::cast_into(&raw const (*raw).done),
                Opaque::cast_into(&raw const (*raw).links),
            )
        };
        // SAFETY: Nothing else has a pointer to the node.
        unsafe { bindings::refcount_set(count, 1) };
        // SAFETY: As above.
        unsafe { init_done(done) };

        self.writers.with(|| {
            // SAFETY: `head` is initialised by the type invariants and the lock is held.
            unsafe { bindings::list_add_rcu(links, self.head.get()) };
        });
        // INVARIANT: The node is on the list. Its count includes the 1 until the entry is used.
        Ok(Entry {
            node,
            list_id: self.id,
        })
    }

    /// Removes a value, waits for the walks that are at it, and returns it.
    ///
    /// New walks skip the value. The caller must not be at a value of the list in a walk
    /// (deadlock), see [`rcu_list`](super). If a walk was leaked at the value, this waits forever,
    /// and logs an error.
    ///
    /// Returns the entry as an error if it is not of this list.
    ///
    /// Context: Process context. May sleep. Waits for the walks that are at this value. C:
    /// `shrinker_free()` in `mm/shrinker.c`.
    pub fn remove(&self, entry: Entry<T>) -> Result<T, Entry<T>> {
        if entry.list_id != self.id {
            return Err(entry);
        }
        let node = entry.node.as_ptr();

        self.visits.wait();
        // SAFETY: By the invariants of the entry the node is on the list. Only this function frees
        // it.
        unsafe { &(*node).is_leaving }.store(true, Relaxed);
        // SAFETY: By the invariants of the entry the count includes the 1 for being on the list.
        // The entry was consumed.
        unsafe { Node::put(node) };
        // SAFETY: As above.
        let done = Opaque::cast_into(unsafe { &raw const (*node).done });
        // CAST: Both are `unsigned long`.
        let timeout = msecs_to_jiffies(WARN_TIMEOUT_MS) as c_ulong;
        // SAFETY: `done` is initialised.
        if unsafe { bindings::wait_for_completion_timeout(done, timeout) } == 0 {
            pr_err!(
                "rcu_list: removal still waits for a walk at the value: leaked walk or deadlock?\n"
            );
            // SAFETY: As above.
            unsafe { bindings::wait_for_completion(done) };
        }

        self.writers.with(|| {
            // SAFETY: By the invariants of the entry the node is on this list, and the lock is
            // held.
            unsafe { bindings::list_del_rcu(Opaque::cast_into(&raw const (*node).links)) };
        });
        // SAFETY: The count is 0, so no reference to the value exists, and no new one is taken. The
        // value is not used after this.
        let value = unsafe { ManuallyDrop::take(&mut (*node).value) };
        // Walks that found the node still read its links and count.
        //
        // SAFETY: `push_front()` leaked the box. The node is off the list, so no new walk finds it.
        // Walks that found it are in RCU read-side critical sections.
        unsafe { Node::free_rcu(node) };
        Ok(value)
    }
}

#[pinned_drop]
impl<T> PinnedDrop for List<T> {
    /// Frees all values on the list. No walk is left, because walks borrow the list.
    fn drop(self: Pin<&mut Self>) {
        let head = self.head.get();
        // SAFETY: `head` is initialised by the type invariants, and nothing else uses it now.
        let mut links = unsafe { (*head).next };

        while links != head {
            // SAFETY: By the type invariants `links` is in a node.
            let node: *mut Node<T> = unsafe { node_of(links) };
            // SAFETY: As above.
            links = unsafe { (*links).next };
            // SAFETY: `push_front()` leaked the box. Nothing finds the node now: no walk is left,
            // and entries of this list are useless without the list.
            let mut node = unsafe { KBox::from_raw(node) };
            // SAFETY: The value is present, as `remove()` was not called. It is not used after
            // this.
            unsafe { ManuallyDrop::drop(&mut node.value) };
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_rcu_list)]
mod tests {
    use super::*;

    use crate::{
        mm::slab::Cache,
        testing::task::OtherTask, //
    };

    use kernel::{
        page::PAGE_SIZE,
        sync::Arc,
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    /// Returns the numbers on a list, as decimal digits.
    fn digits(list: &List<u32>) -> u32 {
        let mut sum = 0;
        list.for_each(|digit| sum = 10 * sum + digit);
        sum
    }

    #[test]
    fn values_are_added_and_removed() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        assert_eq!(digits(&list), 0);
        let three = list.push_front(3, GFP_KERNEL)?;
        let two = list.push_front(2, GFP_KERNEL)?;
        let one = list.push_front(1, GFP_KERNEL)?;
        assert_eq!(digits(&list), 123);
        let mut walk = list.walk();
        assert_eq!(walk.next(), Some(&1));
        assert_eq!(walk.next(), Some(&2));
        drop(walk);

        for (entry, value, left) in [(two, 2, 13), (three, 3, 1), (one, 1, 0)] {
            assert_eq!(list.remove(entry).ok(), Some(value));
            assert_eq!(digits(&list), left);
        }
        Ok(())
    }

    #[test]
    fn entry_of_another_list_is_rejected() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let other = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let entry = list.push_front(1, GFP_KERNEL)?;
        let Err(entry) = other.remove(entry) else {
            return Err(EINVAL);
        };
        drop(list);
        assert!(other.remove(entry).is_err());
        Ok(())
    }

    #[test]
    fn removal_waits_for_walks_at_the_value_only() -> Result {
        let list = Arc::pin_init(new_list!(), GFP_KERNEL)?;
        let removed = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let back = list.push_front(2, GFP_KERNEL)?;
        let front = list.push_front(1, GFP_KERNEL)?;
        let mut walk = list.walk();
        assert_eq!(walk.next(), Some(&1));

        // The walk is at the other value.
        let remove = |entry| {
            let (list, removed) = (list.clone(), removed.clone());
            OtherTask::start(move || {
                let value = list.remove(entry);
                removed.store(value.unwrap_or(u32::MAX), Relaxed);
            })
        };
        remove(back)?.wait();
        assert_eq!(removed.load(Relaxed), 2);

        let front = remove(front)?;
        fsleep(Delta::from_millis(20));
        assert_eq!(removed.load(Relaxed), 2);
        // A new walk skips the value that is being removed.
        while digits(&list) != 0 {
            fsleep(Delta::from_millis(1));
        }
        assert_eq!(walk.next(), None);
        front.wait();
        assert_eq!(removed.load(Relaxed), 1);
        Ok(())
    }

    /// Returns whether the kernel has warned since boot.
    fn has_warned() -> bool {
        // SAFETY: The helper reads a word of the kernel. CAST: The constant is 9.
        unsafe { bindings::test_taint(bindings::TAINT_WARN) != 0 }
    }

    #[test]
    fn memory_of_large_values_is_freed() -> Result {
        const BYTES: usize = 8192;
        let had_warned = has_warned();
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;

        // Several rounds: frees before and after C has allocated a batch take different paths.
        for _ in 0..32 {
            let entry = list.push_front([0_u8; BYTES], GFP_KERNEL)?;
            let node = entry.node.as_ptr();
            // SAFETY: The node is on the list.
            let rcu = unsafe { &raw const (*node).rcu };
            // C looks for `rcu` on the first page when it cannot allocate a batch.
            assert!(rcu.addr() - node.addr() < PAGE_SIZE);
            assert!(list.remove(entry).is_ok());
        }
        // Destroying a cache waits for pending frees.
        drop(Cache::<u64>::reclaimable(c"kunit-rcu-list")?);

        assert_eq!(has_warned(), had_warned);
        Ok(())
    }

    #[test]
    fn drop_frees_values_after_a_leaked_walk() -> Result {
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
        let value = Arc::new((), GFP_KERNEL)?;
        for _ in 0..3 {
            drop(list.push_front(value.clone(), GFP_KERNEL)?);
        }
        let mut walk = list.walk();
        assert!(walk.next().is_some());
        walk.leak();

        drop(list);
        assert!(Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }
}
