// SPDX-License-Identifier: GPL-2.0

//! What is on lists.

use kernel::{
    prelude::*,
    sync::{
        atomic::Atomic,
        Arc,
        Refcount, //
    },
    types::Opaque, //
};

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{
        self,
        NonNull, //
    }, //
};

use super::{
    lru::Inner,
    walk::may_lock, //
};

use crate::{
    bindings,
    mm::gfp::Gfp, //
};

/// An item, with what lists need.
///
/// # Invariants
///
/// - `refs` counts those who use the node: its [`Item`]s, the list that `links` is in, and the
///   [batch](super::Isolated) that it is in.
/// - `links` is initialised, and in a list of `lru` or in none.
/// - `next` is NULL if and only if it is in no batch; the last one in a batch has itself there.
#[repr(C)]
pub(super) struct Node<T> {
    /// First, so that a pointer to it is one to the node. Under the lock of the list.
    links: Opaque<bindings::list_head>,
    pub(super) refs: Refcount,
    pub(super) next: Atomic<*mut Node<T>>,
    lru: ManuallyDrop<Arc<Inner<T>>>,
    pub(super) value: T,
}

/// A reference to an item of a [`ListLru`](super::ListLru).
///
/// The last one drops the value. Each keeps the memory of the lists, which sleeps when it is freed:
/// drop the last item that outlives its [`ListLru`](super::ListLru) where that is allowed.
///
/// # Invariants
///
/// `node` is a node that `self` has a reference to.
pub struct Item<T: Send + Sync + 'static> {
    node: NonNull<Node<T>>,
    _node: PhantomData<Node<T>>,
}

// SAFETY: References may be dropped by any task, which then drops the value, and others may be used
// by other tasks at that time.
unsafe impl<T: Send + Sync + 'static> Send for Item<T> {}

// SAFETY: A `&Item` gives a `&T`, and clones of itself that may be sent. Lists have locks.
unsafe impl<T: Send + Sync + 'static> Sync for Item<T> {}

/// The node stays where it is.
impl<T: Send + Sync + 'static> Unpin for Item<T> {}

/// There was no memory for an [`Item`]; this is the value it was for.
///
/// Converts to [`ENOMEM`].
pub struct NewItemError<T> {
    /// The value.
    pub value: T,
}

impl<T> From<NewItemError<T>> for Error {
    fn from(_: NewItemError<T>) -> Self {
        ENOMEM
    }
}

impl<T: Send + Sync + 'static> Item<T> {
    /// As [`ListLru::alloc()`](super::ListLru::alloc).
    pub(super) fn new(lru: &Arc<Inner<T>>, value: T, gfp: Gfp) -> Result<Self, NewItemError<T>> {
        let Ok(node) = lru.alloc(gfp) else {
            return Err(NewItemError { value });
        };
        // INVARIANT: One reference, in no batch.
        let init = Node {
            links: Opaque::uninit(),
            refs: Refcount::new(1),
            next: Atomic::new(ptr::null_mut()),
            lru: ManuallyDrop::new(lru.clone()),
            value,
        };
        // SAFETY: It is memory for a node, and nobody else's.
        unsafe { node.write(init) };
        let links = Self::links(node);
        let empty = bindings::list_head {
            next: links,
            prev: links,
        };
        // SAFETY: It was written, and nobody else uses it.
        // INVARIANT: In no list.
        unsafe { links.write(empty) };
        // INVARIANT: `self` has the reference.
        Ok(Self {
            node,
            _node: PhantomData,
        })
    }

    /// Takes over a reference to a node.
    ///
    /// # Safety
    ///
    /// The caller must have a reference to `node`, and use it no more.
    #[inline]
    pub(super) unsafe fn from_raw(node: NonNull<Node<T>>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            node,
            _node: PhantomData,
        }
    }

    /// Returns the node of an item that C has in a list.
    #[inline]
    pub(super) fn node_of(links: NonNull<bindings::list_head>) -> NonNull<Node<T>> {
        links.cast()
    }

    /// Returns what C has in a list.
    #[inline]
    fn links(node: NonNull<Node<T>>) -> *mut bindings::list_head {
        node.cast().as_ptr()
    }

    /// Returns the node.
    #[inline]
    fn node(&self) -> &Node<T> {
        // SAFETY: `self` has a reference, by the type invariants.
        unsafe { self.node.as_ref() }
    }

    /// Adds the item to the end of its list, unless it is on it.
    ///
    /// Returns whether it was added. It is not after the [`ListLru`](super::ListLru) was dropped, nor
    /// by who [decides](super::ListLru::shrink_walk) about an item.
    ///
    /// Context: any but interrupts. Never sleeps. C: `list_lru_add_obj()` in `mm/list_lru.c`.
    pub fn add(&self) -> bool {
        let node = self.node();
        if node.lru.closed.is_set() || !may_lock() {
            return false;
        }
        // Before anybody can take it off.
        // INVARIANT: This is for the list.
        node.refs.inc();
        // SAFETY:
        // - The lists are there by the type invariants of `Inner`.
        // - `links` is initialised, and in a list of this `ListLru` or in none, by the type
        //   invariants of `Node`.
        // - It is in slab memory, from which C knows the node and the cgroup, and that has what is
        //   needed for this cgroup: `Inner::alloc()` saw to it.
        let added =
            unsafe { bindings::list_lru_add_obj(node.lru.as_raw(), Self::links(self.node)) };
        if !added {
            // Not the last one, as `self` has one.
            // INVARIANT: The list had one already.
            node.refs.dec();
            return false;
        }
        // Either this sees that it is closed, or `ListLru::drop()` sees the item.
        !(node.lru.closed.is_set_after_add() && self.del_any())
    }

    /// Takes the item off its list, if it is on it.
    ///
    /// Returns whether it was. It was not if a walk has isolated it, and is not by who
    /// [decides](super::ListLru::shrink_walk) about an item.
    ///
    /// Context: any but interrupts. Never sleeps. C: `list_lru_del_obj()` in `mm/list_lru.c`.
    pub fn del(&self) -> bool {
        if !may_lock() {
            return false;
        }
        self.del_any()
    }

    /// As [`del()`](Self::del), wherever it is.
    fn del_any(&self) -> bool {
        let node = self.node();
        // SAFETY: As in `add()`.
        let deleted =
            unsafe { bindings::list_lru_del_obj(node.lru.as_raw(), Self::links(self.node)) };
        if deleted {
            // Not the last one, as `self` has one.
            // INVARIANT: It was the list's.
            node.refs.dec();
        }
        deleted
    }

    /// Returns whether both are references to the same item.
    ///
    /// Context: any.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.node == other.node
    }

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// Nobody must have a reference to the node.
    unsafe fn free(node: NonNull<Node<T>>) {
        // SAFETY: Nobody else uses it.
        let node_ref = unsafe { &mut *node.as_ptr() };
        // SAFETY: It is not used again.
        let lru = unsafe { ManuallyDrop::take(&mut node_ref.lru) };
        // SAFETY: As above. It does not drop `lru`.
        unsafe { node.drop_in_place() };
        // SAFETY: It is from these lists' cache, and not used again.
        unsafe { lru.free(node) };
    }
}

impl<T: Send + Sync + 'static> Clone for Item<T> {
    #[inline]
    fn clone(&self) -> Self {
        // INVARIANT: This is for the clone.
        self.node().refs.inc();
        Self {
            node: self.node,
            _node: PhantomData,
        }
    }
}

impl<T: Send + Sync + 'static> Deref for Item<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.node().value
    }
}

impl<T: Send + Sync + 'static> Drop for Item<T> {
    #[inline]
    fn drop(&mut self) {
        // INVARIANT: It was that of `self`, which is not used again.
        if self.node().refs.dec_and_test() {
            // SAFETY: It was the last one.
            unsafe { Self::free(self.node) };
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_list_lru_item)]
mod tests {
    use super::{
        super::{
            lru::testing::{
                lists,
                Value, //
            },
            Status, //
        },
        *, //
    };

    use core::mem;

    use kernel::sync::atomic::Relaxed;

    #[test]
    fn an_item_is_on_its_list_once() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;

        assert_eq!(lru.count(), 0);
        assert!(!item.del());
        assert!(item.add());
        assert!(!item.add());
        assert!(!item.clone().add());
        assert_eq!(lru.count(), 1);
        assert!(item.del());
        assert!(!item.del());
        assert_eq!(lru.count(), 0);
        assert_eq!(drops.load(Relaxed), 0);
        drop(item);
        assert_eq!(drops.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn the_list_has_a_reference() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);

        for number in 0..4 {
            assert!(lru.alloc(Value::new(number, &drops), Gfp::KERNEL)?.add());
        }
        assert_eq!(lru.count(), 4);
        assert_eq!(drops.load(Relaxed), 0);

        drop(lru);
        assert_eq!(drops.load(Relaxed), 4);
        Ok(())
    }

    #[test]
    fn items_outlive_their_lists() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let listed = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        let other = lru.alloc(Value::new(2, &drops), Gfp::KERNEL)?;
        assert!(listed.add());

        drop(lru);

        assert_eq!(drops.load(Relaxed), 0);
        assert!(!listed.del());
        assert!(!listed.add());
        assert!(!other.add());
        assert_eq!((listed.number, other.number), (1, 2));
        drop(listed);
        drop(other);
        assert_eq!(drops.load(Relaxed), 2);
        Ok(())
    }

    #[test]
    fn references_are_told_apart() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        let other = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;

        assert!(Item::ptr_eq(&item, &item.clone()));
        assert!(!Item::ptr_eq(&item, &other));
        Ok(())
    }

    #[test]
    fn an_item_that_is_found_may_be_added_again() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        assert!(item.add());

        // Isolated, and not returned yet.
        let first = lru.walk(1, |_| Status::Isolate);
        assert!(!item.del());
        assert!(item.add());
        let second = lru.walk(1, |_| Status::Isolate);
        // By the first walk.
        assert_eq!((first.len(), second.len()), (1, 0));
        assert_eq!((first.scanned(), second.scanned()), (1, 1));
        assert_eq!(first.count(), 1);
        drop(second);

        assert!(item.add());
        assert_eq!(lru.walk(1, |_| Status::Isolate).count(), 1);
        assert_eq!(drops.load(Relaxed), 0);
        drop(item);
        assert_eq!(drops.load(Relaxed), 1);
        Ok(())
    }

    #[test]
    fn what_is_forgotten_is_never_dropped() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        assert!(item.add());

        mem::forget(lru.walk(1, |_| Status::Isolate));
        // It is in that batch for ever, which does not keep the lists from going.
        assert!(item.add());
        drop(lru);

        assert_eq!(item.number, 1);
        crate::testing::leak::forget(item)?;
        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }
}
