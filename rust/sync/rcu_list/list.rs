// SPDX-License-Identifier: GPL-2.0

//! The list, and how it changes.

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
        node_of,
        Node, //
    },
    visits::Visits, //
};

/// How long [`List::remove()`] waits before it says why.
const PATIENCE_MS: u32 = 10_000;

/// Creates a [`List`] initialiser, whose lock has a newly-created lock class.
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

/// A list of values.
///
/// # Invariants
///
/// - `head` is a list of the `links` of nodes, changed under the lock of `writers` only.
/// - A node is on it until its count has become 0, and then until who waits for that removes it.
/// - A node has an [`Entry`] with this `id` only while its count has the 1 for being on the list.
#[pin_data(PinnedDrop)]
pub struct List<T> {
    #[pin]
    pub(super) head: Opaque<bindings::list_head>,
    id: u64,
    /// Goes before `writers`, which has the lock class of both.
    #[pin]
    pub(super) visits: Visits,
    #[pin]
    writers: Mutex,
    /// Not covariant: what one task inserts is what walks with a longer-lived `T` get.
    _owns: PhantomData<UnsafeCell<T>>,
}

// SAFETY: It owns values.
unsafe impl<T: Send> Send for List<T> {}

// SAFETY: It gives many walkers `&T`s, hence `Sync`, and any task the values, hence `Send`.
unsafe impl<T: Send + Sync> Sync for List<T> {}

/// A value on a [`List`]: what it takes to remove it.
///
/// A value whose entry is dropped stays until the list is dropped.
///
/// # Invariants
///
/// `node` is on the list with this `id`, if that still lives, and nobody else has this entry.
#[must_use = "without it the value stays on the list"]
pub struct Entry<T> {
    node: NonNull<Node<T>>,
    list_id: u64,
}

// SAFETY: Only `List::remove()` uses `node`, and who has the list in this task may have its values.
unsafe impl<T> Send for Entry<T> {}

// SAFETY: There is nothing to do with an `&Entry`.
unsafe impl<T> Sync for Entry<T> {}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").finish_non_exhaustive()
    }
}

/// There was no memory to insert this value.
///
/// Converts to [`ENOMEM`].
pub struct InsertError<T> {
    /// The value.
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
    /// Prefer [`new_list!`], which supplies name and class of the lock.
    ///
    /// Context: process. May sleep.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        let class = LockClass::new(name, key);
        // SAFETY: `visits` has it, as long as it lives, and goes before `writers`.
        let name = unsafe { class.name() };
        // SAFETY: As above.
        let key = unsafe { class.visits_key() };

        pin_init!(Self {
            // INVARIANT: It is empty.
            head <- Opaque::ffi_init(|slot: *mut bindings::list_head| {
                let empty = bindings::list_head { next: slot, prev: slot };
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`.
                unsafe { slot.write(empty) };
            }),
            // INVARIANT: Nobody else has it, so there are no entries.
            id: unique_id(),
            // SAFETY: `writers` has the class, and goes after it.
            visits <- unsafe { Visits::new(name, key) },
            writers <- Mutex::with_class(class),
            _owns: PhantomData,
        })
    }

    /// Inserts a value at the front.
    ///
    /// Fails if there is no memory, and gives the value back.
    ///
    /// Context: process. Sleeps. C: `list_add_rcu()`.
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
        // SAFETY: Nobody else has the node.
        unsafe { bindings::refcount_set(count, 1) };
        // SAFETY: As above.
        unsafe { bindings::init_completion(done) };

        self.writers.with(|| {
            // SAFETY: `head` is initialised by the type invariants and the lock is held.
            unsafe { bindings::list_add_rcu(links, self.head.get()) };
        });
        // INVARIANT: It is on the list, and the count has its 1 until the entry is used.
        Ok(Entry {
            node,
            list_id: self.id,
        })
    }

    /// Removes a value, waits until nobody looks at it any more, and returns it.
    ///
    /// Walks that come to it from now on skip it. Must not be called by who is at a value of the list
    /// in a walk, see [`rcu_list`](super). If a walk was leaked at it this waits for ever, and says so
    /// in the log.
    ///
    /// Gives the entry back if it is not of this list.
    ///
    /// Context: process. Sleeps until those are done who are at this value. C: `shrinker_free()`.
    pub fn remove(&self, entry: Entry<T>) -> Result<T, Entry<T>> {
        if entry.list_id != self.id {
            return Err(entry);
        }
        let node = entry.node.as_ptr();

        self.visits.wait();
        // SAFETY: By the invariants of the entry the node is on the list. Nobody else frees it.
        unsafe { &(*node).is_leaving }.store(true, Relaxed);
        // SAFETY: The count has the 1 for being on the list by the invariants of the entry, which
        // goes with it.
        unsafe { Node::put(node) };
        // SAFETY: As above.
        let done = Opaque::cast_into(unsafe { &raw const (*node).done });
        // CAST: Both are `unsigned long`.
        let patience = msecs_to_jiffies(PATIENCE_MS) as c_ulong;
        // SAFETY: `done` is initialised.
        if unsafe { bindings::wait_for_completion_timeout(done, patience) } == 0 {
            pr_err!(
                "rcu_list: a value cannot be removed while a walk is at it: \
                 leaked a walk, or removes it what a walk waits for?\n"
            );
            // SAFETY: As above.
            unsafe { bindings::wait_for_completion(done) };
        }

        self.writers.with(|| {
            // SAFETY: By the invariants of the entry it is on this list, and the lock is held.
            unsafe { bindings::list_del_rcu(Opaque::cast_into(&raw const (*node).links)) };
        });
        // SAFETY: The count is 0, so nobody has a reference to the value, nor gets one. It is not
        // used after this.
        let value = unsafe { ManuallyDrop::take(&mut (*node).value) };
        // Walks that have come to the node still read its links and count.
        //
        // SAFETY: `push_front()` leaked the box. Nobody finds the node any more, as it is off the
        // list. Those who did are in RCU critical sections.
        unsafe { Node::free_rcu(node) };
        Ok(value)
    }
}

#[pinned_drop]
impl<T> PinnedDrop for List<T> {
    /// Frees what is on the list. There is nobody to wait for, as walks borrow the list.
    fn drop(self: Pin<&mut Self>) {
        let head = self.head.get();
        // SAFETY: `head` is initialised by the type invariants, and nobody else uses it any more.
        let mut links = unsafe { (*head).next };

        while links != head {
            // SAFETY: By the type invariants it is a node.
            let node: *mut Node<T> = unsafe { node_of(links) };
            // SAFETY: As above.
            links = unsafe { (*links).next };
            // SAFETY: `push_front()` leaked it. Nobody finds it any more: no walk is left, and
            // entries of this list are of no use.
            let mut node = unsafe { KBox::from_raw(node) };
            // SAFETY: The value is there, as `remove()` was not called, and not used after this.
            unsafe { ManuallyDrop::drop(&mut node.value) };
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_rcu_list)]
mod tests {
    use super::*;

    use crate::mm::slab::Cache;

    use kernel::{
        page::PAGE_SIZE,
        sync::{
            atomic::{
                Acquire,
                Release, //
            },
            Arc, //
        },
        time::{
            delay::fsleep,
            Delta, //
        },
        workqueue, //
    };

    /// The numbers on a list, as digits.
    fn digits(list: &List<u32>) -> u32 {
        let mut sum = 0;
        list.for_each(|digit| sum = 10 * sum + digit);
        sum
    }

    #[test]
    fn values_come_and_go() -> Result {
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
    fn an_entry_of_another_list_is_refused() -> Result {
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
    fn removal_waits_for_who_is_there_and_for_nobody_else() -> Result {
        let list = Arc::pin_init(new_list!(), GFP_KERNEL)?;
        let removed = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let back = list.push_front(2, GFP_KERNEL)?;
        let front = list.push_front(1, GFP_KERNEL)?;
        let mut walk = list.walk();
        assert_eq!(walk.next(), Some(&1));

        // The walk is at the other one.
        let (their_list, theirs) = (list.clone(), removed.clone());
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            let value = their_list.remove(back);
            theirs.store(value.unwrap_or(u32::MAX), Release);
        })?;
        while removed.load(Acquire) != 2 {
            fsleep(Delta::from_millis(1));
        }

        let (their_list, theirs) = (list.clone(), removed.clone());
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            let value = their_list.remove(front);
            theirs.store(value.unwrap_or(u32::MAX), Release);
        })?;
        fsleep(Delta::from_millis(20));
        assert_eq!(removed.load(Relaxed), 2);
        // A new walk does not come to what is being removed.
        while digits(&list) != 0 {
            fsleep(Delta::from_millis(1));
        }
        assert_eq!(walk.next(), None);
        while removed.load(Acquire) != 1 {
            fsleep(Delta::from_millis(1));
        }
        Ok(())
    }

    /// Tells whether the kernel has warned since it booted.
    fn has_warned() -> bool {
        // SAFETY: It reads a word of the kernel's own. CAST: It is 9.
        unsafe { bindings::test_taint(bindings::TAINT_WARN) != 0 }
    }

    #[test]
    fn memory_of_large_values_is_freed() -> Result {
        const BYTES: usize = 8192;
        let had_warned = has_warned();
        let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;

        // More than one, as C finds room to note the first ones only later.
        for _ in 0..32 {
            let entry = list.push_front([0_u8; BYTES], GFP_KERNEL)?;
            let node = entry.node.as_ptr();
            // SAFETY: It is on the list.
            let rcu = unsafe { &raw const (*node).rcu };
            // C looks for it on the first page, when it has nowhere else to note the memory.
            assert!(rcu.addr() - node.addr() < PAGE_SIZE);
            assert!(list.remove(entry).is_ok());
        }
        // C waits for what is being freed when a cache goes.
        drop(Cache::<u64>::reclaimable(c"kunit-rcu-list")?);

        assert_eq!(has_warned(), had_warned);
        Ok(())
    }

    #[test]
    fn drop_frees_what_is_left_also_after_a_leaked_walk() -> Result {
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
