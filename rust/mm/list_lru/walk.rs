// SPDX-License-Identifier: GPL-2.0

//! Walks, and what they take off the list.

use kernel::{
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
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

/// What becomes of an item that a walk has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It is taken off the list, and returned after the walk (`LRU_REMOVED`).
    Isolate,
    /// It goes to the end of the list, as it was used (`LRU_ROTATE`).
    Rotate,
    /// It stays where it is, as it cannot be freed now (`LRU_SKIP`).
    Skip,
}

/// Tells whether a list may be locked, or says in the log why not.
///
/// Not by who decides about an item, for whom a list is locked: who walks the list that is to be
/// locked may wait for that one.
#[inline]
pub(super) fn may_lock() -> bool {
    // SAFETY: It reads what is of this CPU, where this task stays if any of that is its own.
    let is_deciding = unsafe { bindings::list_lru_in_isolate() };
    if is_deciding {
        report();
    }
    !is_deciding
}

/// Says what was not done, the first time.
#[cold]
fn report() {
    static HAS_REPORTED: Atomic<bool> = Atomic::new(false);

    if !HAS_REPORTED.xchg(true, Relaxed) {
        pr_err!("list_lru: nothing is added, deleted or walked while a walk looks at an item\n");
    }
}

/// What C calls for each item of a walk.
type IsolateFn = bindings::list_lru_walk_cb;

/// A walk that is running.
pub(super) struct Walk<T: Send + Sync + 'static, F> {
    decide: F,
    isolated: Isolated<T>,
}

impl<T: Send + Sync + 'static, F: FnMut(&T) -> Status> Walk<T, F> {
    /// Calls `walk` with what it has to give C, and returns what was isolated.
    ///
    /// `walk` returns how many items were scanned. The function that it gets may be called with the
    /// pointer that it gets, and nodes of `T` that are in a list, until it returns.
    #[inline]
    pub(super) fn run(
        decide: F,
        walk: impl FnOnce(IsolateFn, *mut c_void) -> usize,
    ) -> Isolated<T> {
        let mut this = Self {
            decide,
            isolated: Isolated::new(),
        };
        let scanned = walk(Some(Self::isolate), ptr::from_mut(&mut this).cast());
        this.isolated.scanned = scanned;
        this.isolated
    }

    /// Is called for each item.
    ///
    /// # Safety
    ///
    /// C must call this in a walk, with `links` of a [`Node<T>`] that is in the list, which is
    /// locked, and `arg` as [`run()`](Self::run) has it.
    unsafe extern "C" fn isolate(
        links: *mut bindings::list_head,
        list: *mut bindings::list_lru_one,
        arg: *mut c_void,
    ) -> bindings::lru_status {
        // SAFETY: By the safety requirements, and C calls this for one item at a time.
        let this = unsafe { &mut *arg.cast::<Self>() };
        // SAFETY: It is in a list.
        let node = Item::<T>::node_of(unsafe { NonNull::new_unchecked(links) });
        // SAFETY: The list has a reference, by the type invariants.
        let value = unsafe { &node.as_ref().value };

        let mut walker = bindings::kscale_list_lru_walker::default();
        // SAFETY: A list is locked, so this task stays on its CPU, and `walker` stays where it is, until
        // the call below.
        unsafe { bindings::list_lru_begin_isolate(&raw mut walker) };
        let status = (this.decide)(value);
        // SAFETY: It was begun above, on this CPU.
        unsafe { bindings::list_lru_end_isolate(&raw mut walker) };

        match status {
            Status::Isolate => {
                // SAFETY: It is in the list, which is locked.
                unsafe { bindings::list_lru_isolate(list, links) };
                // SAFETY: The reference was the list's, which it is not in any more.
                unsafe { this.isolated.push(node) };
                bindings::lru_status::LRU_REMOVED
            }
            Status::Rotate => bindings::lru_status::LRU_ROTATE,
            Status::Skip => bindings::lru_status::LRU_SKIP,
        }
    }
}

/// What a walk has isolated, from what was used longest ago.
///
/// Dropped, it drops what it has left. An item that was added again, and isolated again by another
/// walk before this one returned it, is returned once.
///
/// # Invariants
///
/// `first` is NULL if there are none left. Otherwise the nodes from there to `last`, by `next`, are
/// those that are left, with a reference each.
///
/// # Memory order
///
/// All accesses to `next` are [`Relaxed`]. It says which batch a node is in, and nothing of the rest of
/// the node. Accesses to one variable are in an order by themselves: who has seen NULL there writes
/// after the batch that has written it. Who has not, but got the last reference, is told by `refs`.
#[must_use = "what was isolated is dropped at once"]
pub struct Isolated<T: Send + Sync + 'static> {
    first: *mut Node<T>,
    last: *mut Node<T>,
    len: usize,
    scanned: usize,
    _items: PhantomData<Item<T>>,
}

// SAFETY: It owns references to items, which may be sent.
unsafe impl<T: Send + Sync + 'static> Send for Isolated<T> {}

// SAFETY: There are only numbers to get from an `&Isolated`.
unsafe impl<T: Send + Sync + 'static> Sync for Isolated<T> {}

impl<T: Send + Sync + 'static> Isolated<T> {
    pub(super) const fn new() -> Self {
        // INVARIANT: There are none.
        Self {
            first: ptr::null_mut(),
            last: ptr::null_mut(),
            len: 0,
            scanned: 0,
            _items: PhantomData,
        }
    }

    /// Returns how many items the walk has come to.
    ///
    /// Context: any.
    pub fn scanned(&self) -> usize {
        self.scanned
    }

    /// Returns how many are left.
    ///
    /// Context: any.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether none is left.
    ///
    /// Context: any.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a node at the end, unless it is in another batch.
    ///
    /// # Safety
    ///
    /// The caller must have a reference to the node, and use it no more.
    #[inline]
    unsafe fn push(&mut self, node: NonNull<Node<T>>) {
        let raw = node.as_ptr();
        // SAFETY: The caller has a reference.
        let node = unsafe { node.as_ref() };

        if !node.next.load(Relaxed).is_null() {
            // It was added again before another batch has returned it, which has a reference.
            if !node.refs.dec_and_test() {
                return;
            }
            // Meanwhile that has returned it, and it was dropped. So nobody else has it, and it is
            // in no batch: as if that was so before.
            //
            // INVARIANT: This is the reference that there was.
            node.refs.set(1);
        }
        // Nobody else puts it into a batch: that takes one to isolate it, and it is isolated once
        // each time that it is added, which comes after with the lock of a list.
        //
        // INVARIANT: It is the last one of this batch.
        node.next.store(raw, Relaxed);
        // INVARIANT: The one before comes before.
        if self.first.is_null() {
            self.first = raw;
        } else {
            // SAFETY: This batch has a reference to it, by the type invariants.
            unsafe { &*self.last }.next.store(raw, Relaxed);
        }
        self.last = raw;
        // OVERFLOW: There are not as many items.
        self.len = self.len.wrapping_add(1);
    }
}

impl<T: Send + Sync + 'static> Iterator for Isolated<T> {
    type Item = Item<T>;

    #[inline]
    fn next(&mut self) -> Option<Item<T>> {
        let node = NonNull::new(self.first)?;
        // SAFETY: This batch has a reference, by the type invariants.
        let next = unsafe { &node.as_ref().next };

        // INVARIANT: The next one is the first, if there is one.
        let following = next.load(Relaxed);
        self.first = if following == node.as_ptr() {
            ptr::null_mut()
        } else {
            following
        };
        // OVERFLOW: There was one.
        self.len = self.len.wrapping_sub(1);
        // From now on it may be in another batch.
        next.store(ptr::null_mut(), Relaxed);
        // SAFETY: The reference was this batch's, where it is not any more.
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

    use crate::mm::{
        gfp::Gfp,
        shrinker::{
            ScanControl,
            ShrinkControl, //
        }, //
    };

    /// Returns lists with values that are numbered, and their node: slab memory is of one here.
    fn numbered(count: usize, drops: &Arc<Atomic<usize>>) -> Result<ListLru<Value>> {
        let lru = lists()?;
        for number in 0..count {
            lru.alloc(Value::new(number, drops), Gfp::KERNEL)?.add();
        }
        Ok(lru)
    }

    /// Returns the numbers of what is isolated.
    fn numbers(isolated: Isolated<Value>) -> Result<KVec<usize>> {
        let mut numbers = KVec::new();
        for item in isolated {
            numbers.push(item.number, GFP_KERNEL)?;
        }
        Ok(numbers)
    }

    #[test]
    fn items_come_in_the_order_of_their_use() -> Result {
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
    fn nothing_is_freed_before_the_walk_is_over() -> Result {
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
    fn a_walk_ends_when_it_should() -> Result {
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

    /// Calls `f` with what C would ask of a node.
    fn asked<R>(nid: i32, nr_to_scan: usize, f: impl FnOnce(&ScanControl) -> R) -> R {
        let mut control = bindings::shrink_control {
            nid,
            nr_to_scan,
            ..Default::default()
        };
        // SAFETY: It is as C passes it.
        f(unsafe { ScanControl::from_raw(&raw mut control) })
    }

    #[test]
    fn lists_are_left_alone_in_a_walk() -> Result {
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

        // Nothing of that lasts.
        assert!(mine.add() && unlisted.add() && listed.del());
        assert_eq!((lru.count(), other.count()), (3, 2));
        Ok(())
    }

    #[test]
    fn lists_are_left_alone_after_the_drop_of_one_in_a_walk() -> Result {
        let drops = Value::drops()?;
        let (lru, mut dropped, other) =
            (numbered(1, &drops)?, Some(numbered(1, &drops)?), lists()?);
        // Has the memory of `dropped` stay, so that its drop does not sleep.
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

    /// Tells whether lockdep looks for deadlocks, and has not found any yet.
    fn is_watched() -> bool {
        // SAFETY: It is a number that only gets 0.
        unsafe { (&raw const bindings::debug_locks).read_volatile() != 0 }
    }

    #[test]
    fn lists_of_others_may_be_changed_with_a_lock_of_walks() -> Result {
        let was_watched = is_watched();
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

        assert_eq!(is_watched(), was_watched);
        Ok(())
    }

    #[test]
    fn shrinkers_that_rotate_end() -> Result {
        let drops = Value::drops()?;
        let lru = numbered(5, &drops)?;
        // SAFETY: It reads what does not change.
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
        // SAFETY: It reads what does not change.
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
}
