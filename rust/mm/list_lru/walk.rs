// SPDX-License-Identifier: GPL-2.0

//! Walks of lists, and the items that they isolate.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            Atomic,
            Relaxed, //
        }, //
    }, //
};

use core::{
    marker::PhantomData,
    ptr::{
        self,
        NonNull, //
    }, //
};

use super::item::{
    Item,
    Node, //
};

use crate::bindings;

/// The action of a walk for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Removes the item from the list. The walk returns it at its end (`LRU_REMOVED`).
    Isolate,
    /// Moves the item to the end of the list, as recently used (`LRU_ROTATE`).
    Rotate,
    /// Leaves the item in its position, as it cannot be freed now (`LRU_SKIP`).
    Skip,
}

/// Returns whether this task may lock a list, and prints an error to the log if not.
///
/// The callback of a walk must not lock a list, as it runs with a list locked: a walk of the other
/// list may wait for this one (deadlock).
#[inline]
pub(super) fn may_lock() -> bool {
    // SAFETY: The function reads data of this CPU. If an entry is for this task, the task cannot
    // migrate.
    let is_deciding = unsafe { bindings::list_lru_in_isolate() };
    if is_deciding {
        report();
    }
    !is_deciding
}

/// Prints an error to the log, on the first call only.
#[cold]
fn report() {
    static HAS_REPORTED: Atomic<bool> = Atomic::new(false);

    if !HAS_REPORTED.xchg(true, Relaxed) {
        pr_err!("list_lru: the callback of a walk must not add, delete or walk items\n");
    }
}

/// The type of the C callback for each item of a walk.
type IsolateFn = bindings::list_lru_walk_cb;

/// A walk that is running.
pub(super) struct Walk<T: Send + Sync + 'static, F> {
    decide: F,
    isolated: Isolated<T>,
}

impl<T: Send + Sync + 'static, F: FnMut(&T) -> Status> Walk<T, F> {
    /// Calls `walk` with a C callback and its argument, and returns the isolated items.
    ///
    /// `walk` returns the number of scanned items. Until it returns, it may call the callback with
    /// the argument and with nodes of `T` that are in a list.
    #[inline]
    pub(super) fn run(
        decide: F,
        walk: impl FnOnce(IsolateFn, *mut c_void) -> usize,
    ) -> Isolated<T> {
        let mut this = Self {
            decide,
            isolated: Isolated::new(),
        };
        // Leaked if `decide` panics: see `helpers/list_lru.c`.
        let task = ARef::from(&**current!());
        let scanned = walk(Some(Self::isolate), ptr::from_mut(&mut this).cast());
        drop(task);
        this.isolated.scanned = scanned;
        this.isolated
    }

    /// The C callback for each item.
    ///
    /// # Safety
    ///
    /// C must call this in a walk, with `links` of a [`Node<T>`] in `list`, which is locked, and
    /// with the `arg` of [`run()`](Self::run).
    unsafe extern "C" fn isolate(
        links: *mut bindings::list_head,
        list: *mut bindings::list_lru_one,
        arg: *mut c_void,
    ) -> bindings::lru_status {
        // SAFETY: By the safety requirements, and C calls this for one item at a time.
        let this = unsafe { &mut *arg.cast::<Self>() };
        // SAFETY: The node is in a list, so `links` is not null.
        let node = Item::<T>::node_of(unsafe { NonNull::new_unchecked(links) });
        // SAFETY: The list owns a reference, by the type invariants.
        let value = unsafe { &node.as_ref().value };

        let mut walker = bindings::kscale_list_lru_walker::default();
        // SAFETY: A list is locked, so this task does not migrate. The task has a reference, see
        // `run()`.
        if !unsafe { bindings::list_lru_begin_isolate(&raw mut walker) } {
            return bindings::lru_status::LRU_SKIP;
        }
        let status = (this.decide)(value);
        // SAFETY: The first call was above, on this CPU.
        unsafe { bindings::list_lru_end_isolate(&raw mut walker) };

        match status {
            Status::Isolate => {
                // SAFETY: The node is in the list, which is locked.
                unsafe { bindings::list_lru_isolate(list, links) };
                // SAFETY: The reference belonged to the list, from which the node was removed.
                unsafe { this.isolated.push(node) };
                bindings::lru_status::LRU_REMOVED
            }
            Status::Rotate => bindings::lru_status::LRU_ROTATE,
            Status::Skip => bindings::lru_status::LRU_SKIP,
        }
    }
}

/// The items that a walk has isolated, the least recently used item first.
///
/// The drop drops the remaining items. If an item was added again and isolated by a second walk
/// before the first walk's `Isolated` has returned it, only the first `Isolated` returns it.
///
/// # Invariants
///
/// `first` is NULL if no nodes are left. Otherwise the remaining nodes are linked from `first` to
/// `last` by `next`, and `self` owns a reference to each.
///
/// # Memory order
///
/// All accesses to `next` are [`Relaxed`]. `next` links the batch of a node, and does not publish
/// other fields of the node. Accesses to a single variable are totally ordered: a task that reads
/// NULL writes after the batch that wrote NULL. A task that reads another value but drops the last
/// reference is ordered by `refs`.
#[must_use = "what was isolated is dropped at once"]
pub struct Isolated<T: Send + Sync + 'static> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
    scanned: usize,
    _items: PhantomData<Item<T>>,
}

// SAFETY: `Isolated` owns references to items, which are `Send`.
unsafe impl<T: Send + Sync + 'static> Send for Isolated<T> {}

// SAFETY: A `&Isolated` gives access to counts only.
unsafe impl<T: Send + Sync + 'static> Sync for Isolated<T> {}

impl<T: Send + Sync + 'static> Isolated<T> {
    pub(super) const fn new() -> Self {
        // INVARIANT: There are no nodes.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            len: 0,
            scanned: 0,
            _items: PhantomData,
        }
    }

    /// Returns the number of items that the walk has scanned.
    ///
    /// Context: Any context. Never sleeps.
    pub fn scanned(&self) -> usize {
        self.scanned
    }

    /// Returns the number of remaining items.
    ///
    /// Context: Any context. Never sleeps.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no items are left.
    ///
    /// Context: Any context. Never sleeps.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a node at the end, unless the node is in another batch.
    ///
    /// # Safety
    ///
    /// The caller must own a reference to the node, and gives it up.
    #[inline]
    unsafe fn push(&mut self, node: NonNull<Node<T>>) {
        let raw = node.as_ptr();
        // SAFETY: The caller owns a reference.
        let node = unsafe { node.as_ref() };

        if !node.next.load(Relaxed).is_null() {
            // The item was added again before another batch, which owns a reference, returned it.
            if !node.refs.dec_and_test() {
                return;
            }
            // The other batch has returned the item by now, and the reference of that was dropped.
            // The node has no other users and is in no batch, as if it had been so before.
            //
            // INVARIANT: This is the reference that was dropped above.
            node.refs.set(1);
        }
        // No other task puts the node into a batch now: that requires isolating the node, which
        // requires adding it again, and the list lock orders that after this.
        //
        // INVARIANT: The node is the last of this batch.
        node.next.store(raw, Relaxed);
        // INVARIANT: The previous last node links to this node.
        if self.first.is_null() {
            self.first = raw;
        } else {
            // SAFETY: This batch owns a reference to the node, by the type invariants.
            unsafe { &*self.last }.next.store(raw, Relaxed);
        }
        self.last = raw;
        // OVERFLOW: There are fewer items than addresses.
        self.len = self.len.wrapping_add(1);
    }
}

impl<T: Send + Sync + 'static> Iterator for Isolated<T> {
    type Item = Item<T>;

    #[inline]
    fn next(&mut self) -> Option<Item<T>> {
        let node = NonNull::new(self.first)?;
        // SAFETY: This batch owns a reference, by the type invariants.
        let next = unsafe { &node.as_ref().next };

        // INVARIANT: The next node, if there is one, becomes the first.
        let following = next.load(Relaxed);
        self.first = if following == node.as_ptr() {
            ptr::null_mut()
        } else {
            following
        };
        // OVERFLOW: The batch had an item, so the length was not 0.
        self.len = self.len.wrapping_sub(1);
        // The node may be in another batch from now on.
        next.store(ptr::null_mut(), Relaxed);
        // SAFETY: The reference belonged to this batch, from which the node was removed.
        Some(unsafe { Item::from_raw(node) })
    }
}

impl<T: Send + Sync + 'static> Drop for Isolated<T> {
    fn drop(&mut self) {
        for item in self {
            drop(item);
        }
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_list_lru_walk)]
mod tests {
    use super::{
        super::{
            lru::testing::{
                lists,
                Value, //
            },
            ListLru, //
        },
        *, //
    };

    use kernel::{
        new_spinlock,
        sync::Arc, //
    };

    use crate::{
        mm::{
            gfp::Gfp,
            shrinker::{
                ScanControl,
                ShrinkControl, //
            }, //
        },
        testing::lockdep, //
    };

    /// Returns lists with `count` numbered values.
    pub(super) fn numbered(count: usize, drops: &Arc<Atomic<usize>>) -> Result<ListLru<Value>> {
        let lru = lists()?;
        for number in 0..count {
            lru.alloc(Value::new(number, drops), Gfp::KERNEL)?.add();
        }
        Ok(lru)
    }

    /// Returns the numbers of the isolated values.
    fn numbers(isolated: Isolated<Value>) -> Result<KVec<usize>> {
        let mut numbers = KVec::new();
        for item in isolated {
            numbers.push(item.number, GFP_KERNEL)?;
        }
        Ok(numbers)
    }

    #[test]
    fn walk_visits_items_in_lru_order() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(8, &drops)?;

        let isolated = lru.walk(5, |value| match value.number {
            1 => Status::Rotate,
            2 | 4 => Status::Skip,
            _ => Status::Isolate,
        });
        assert_eq!((isolated.len(), isolated.scanned()), (2, 5));
        assert_eq!(numbers(isolated)?.as_slice(), &[0, 3]);
        assert_eq!(lru.count(), 6);

        let rest = lru.walk(usize::MAX, |_| Status::Isolate);
        assert_eq!((rest.len(), rest.scanned()), (6, 6));
        assert_eq!(numbers(rest)?.as_slice(), &[2, 4, 5, 6, 7, 1]);
        Ok(())
    }

    #[test]
    fn items_are_freed_after_the_walk() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(4, &drops)?;

        let mut isolated = lru.walk(usize::MAX, |_| {
            if drops.load(Relaxed) == 0 {
                Status::Isolate
            } else {
                Status::Skip
            }
        });
        assert_eq!(isolated.len(), 4);
        assert_eq!(drops.load(Relaxed), 0);

        drop(isolated.next());
        assert_eq!((isolated.len(), drops.load(Relaxed)), (3, 1));
        assert!(!isolated.is_empty());
        drop(isolated);
        assert_eq!(drops.load(Relaxed), 4);
        Ok(())
    }

    #[test]
    fn walk_isolates_at_most_nr_to_walk_items() -> Result {
        // Items, to walk, isolated, left.
        const ROWS: [(usize, usize, usize, usize); 6] = [
            (0, 0, 0, 0),
            (0, 9, 0, 0),
            (3, 0, 0, 3),
            (3, 2, 2, 1),
            (3, 3, 3, 0),
            (3, usize::MAX, 3, 0),
        ];
        let drops = Value::drops()?;

        for (count, nr_to_walk, isolated, left) in ROWS {
            let lru = numbered(count, &drops)?;
            let walk = lru.walk(nr_to_walk, |_| Status::Isolate);
            assert_eq!((walk.len(), walk.scanned()), (isolated, isolated));
            assert_eq!(lru.count(), left);
        }
        Ok(())
    }

    #[test]
    fn a_walk_that_rotates_ends() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(3, &drops)?;

        let walk = lru.walk(1000, |_| Status::Rotate);
        assert_eq!((walk.len(), walk.scanned()), (0, 3));
        drop(lru.walk(usize::MAX, |_| Status::Rotate));
        assert_eq!(lru.count(), 3);
        Ok(())
    }

    /// Calls `f` with the argument that C would pass for a node.
    fn asked<R>(nid: i32, nr_to_scan: usize, f: impl FnOnce(&ScanControl) -> R) -> R {
        let mut control = bindings::shrink_control {
            nid,
            nr_to_scan,
            ..Default::default()
        };
        // SAFETY: `control` is initialised as in C.
        f(unsafe { ScanControl::from_raw(&raw mut control) })
    }

    #[test]
    fn list_operations_fail_in_a_walk() -> Result {
        let drops = Value::drops()?;
        let (lru, other) = (numbered(2, &drops)?, numbered(1, &drops)?);
        let mine = lru.alloc(Value::new(8, &drops), Gfp::KERNEL)?;
        let (listed, unlisted) = (
            other.alloc(Value::new(8, &drops), Gfp::KERNEL)?,
            other.alloc(Value::new(9, &drops), Gfp::KERNEL)?,
        );
        assert!(listed.add());
        let mut answers = (0, 0);

        let walk = lru.walk(2, |_| {
            answers.0 += usize::from(unlisted.add()) + usize::from(listed.del());
            answers.1 += other.walk(9, |_| Status::Isolate).scanned();
            Status::Rotate
        });
        assert_eq!(walk.scanned(), 2);
        assert_eq!(answers, (0, 0));
        assert_eq!((lru.count(), other.count()), (2, 2));

        // The lists work again after the walk.
        assert!(mine.add() && unlisted.add() && listed.del());
        assert_eq!((lru.count(), other.count()), (3, 2));
        Ok(())
    }

    #[test]
    fn list_operations_fail_after_a_drop_in_a_walk() -> Result {
        let drops = Value::drops()?;
        let (lru, mut dropped, other) =
            (numbered(1, &drops)?, Some(numbered(1, &drops)?), lists()?);
        // Keep the memory of `dropped` allocated, so that its drop does not sleep.
        let _kept = dropped
            .as_ref()
            .map(|lru| lru.alloc(Value::new(8, &drops), Gfp::KERNEL));
        let item = other.alloc(Value::new(9, &drops), Gfp::KERNEL)?;
        let mut is_added = true;

        let walk = lru.walk(1, |_| {
            drop(dropped.take());
            is_added = item.add();
            Status::Rotate
        });
        assert_eq!(walk.scanned(), 1);
        assert!(!is_added);
        assert_eq!(other.count(), 0);
        Ok(())
    }

    #[test]
    fn other_lists_can_be_changed_under_a_lock_of_the_walk() -> Result {
        let was_active = lockdep::is_active();
        let drops = Value::drops()?;
        let (lru, other) = (numbered(1, &drops)?, lists()?);
        let item = other.alloc(Value::new(8, &drops), Gfp::KERNEL)?;
        let lock = KBox::pin_init(new_spinlock!(0), GFP_KERNEL)?;

        drop(lru.walk(1, |_| {
            *lock.lock() += 1;
            Status::Skip
        }));
        let mut count = lock.lock();
        *count += usize::from(item.add());
        assert_eq!(*count, 2);
        drop(count);

        assert_eq!(lockdep::is_active(), was_active);
        Ok(())
    }

    #[test]
    fn shrinkers_that_rotate_end() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(5, &drops)?;
        // SAFETY: The function reads a constant.
        let nodes = unsafe { bindings::nr_nodes() };

        let scanned: usize = (0..nodes)
            .map(|nid| {
                asked(nid, 1000, |control| {
                    lru.shrink_walk(control, |_| Status::Rotate).scanned()
                })
            })
            .sum();
        assert_eq!(scanned, 5);
        assert_eq!(lru.count(), 5);
        Ok(())
    }

    #[test]
    fn shrinkers_walk_one_node() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(5, &drops)?;
        // SAFETY: The function reads a constant.
        let nodes = unsafe { bindings::nr_nodes() };
        let mut counted = 0;

        for nid in 0..nodes {
            let (count, isolated) = asked(nid, 3, |control| {
                let target: &ShrinkControl = control;
                let count = lru.shrink_count(target);
                (count, lru.shrink_walk(control, |_| Status::Isolate))
            });
            counted += count;
            assert_eq!(isolated.len(), count.min(3));
            assert_eq!(isolated.scanned(), isolated.len());
        }
        assert_eq!(counted, 5);
        Ok(())
    }

    /// Returns the number of references to the current task.
    fn references() -> u32 {
        let task = (**current!()).as_ptr();
        // SAFETY: The current task is not freed. C changes the field atomically.
        unsafe { (&raw const (*task).usage.refs.counter).read_volatile() }.unsigned_abs()
    }

    /// If the callback panics, no other task gets the address of its task.
    #[test]
    fn the_task_has_a_reference_during_a_walk() -> Result {
        let lru = numbered(1, &Arc::new(Atomic::new(0), GFP_KERNEL)?)?;
        let mut meanwhile = 0;
        let before = references();
        let _ = lru.walk(1, |_| {
            meanwhile = references();
            Status::Skip
        });

        assert_eq!((meanwhile, references()), (before + 1, before));
        Ok(())
    }
}

#[cfg(all(kscale_kunit, CONFIG_PREEMPT_RT))]
#[kunit_tests(kscale_list_lru_rt)]
mod rt_tests {
    use super::{
        tests::numbered,
        *, //
    };

    use kernel::{
        sync::Arc,
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    use crate::testing::task::run_jobs;

    /// Begins a callback that does not return, and returns whether this is possible.
    fn begin() -> bool {
        let mut walker = bindings::kscale_list_lru_walker::default();
        // SAFETY: The function keeps no pointer to `walker`. The task has a reference, see below.
        unsafe { bindings::list_lru_begin_isolate(&raw mut walker) }
    }

    /// Stands for callbacks that panic. Their task ends, as each case has a task of its own.
    #[test]
    fn callbacks_do_not_return() -> Result {
        let lru = Arc::new(
            numbered(1, &Arc::new(Atomic::new(0), GFP_KERNEL)?)?,
            GFP_KERNEL,
        )?;
        let scanned = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        core::mem::forget(ARef::from(&**current!()));
        // As many as may run at once.
        while begin() {}
        // SAFETY: The function reads data of this task.
        let is_deciding = unsafe { bindings::list_lru_in_isolate() };
        run_jobs(1, |_| {
            let (lru, scanned) = (lru.clone(), scanned.clone());
            Ok(move || {
                let isolated = lru.walk(1, |_| Status::Isolate);
                scanned.store(isolated.scanned(), Relaxed);
            })
        })?;

        assert!(is_deciding);
        // The callback was not called.
        assert_eq!((scanned.load(Relaxed), lru.count()), (1, 1));
        // The drop would wait until callbacks can be called again.
        core::mem::forget(lru);
        Ok(())
    }

    /// Runs after the case above. Other tasks have its stack now.
    #[test]
    fn lists_are_used_after_callbacks_that_did_not_return() -> Result {
        let refused = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        run_jobs(64, |_| {
            let refused = refused.clone();
            Ok(move || {
                refused.fetch_add(i32::from(!may_lock()), Relaxed);
            })
        })?;
        assert_eq!(refused.load(Relaxed), 0);
        // When the task has ended, others get its slots.
        let lru = numbered(3, &Arc::new(Atomic::new(0), GFP_KERNEL)?)?;
        while lru.count() > 0 {
            drop(lru.walk(3, |_| Status::Isolate));
            fsleep(Delta::from_millis(1));
        }
        Ok(())
    }
}
