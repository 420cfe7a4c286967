// SPDX-License-Identifier: GPL-2.0

//! The items of lists.

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

/// The allocation of an item.
///
/// # Invariants
///
/// - `refs` counts the references to the node: its [`Item`]s, the list that contains `links`, and
///   the [batch](super::Isolated) that contains the node.
/// - `links` is initialised, and in a list of `lru` or in no list.
/// - `next` is NULL if and only if the node is in no batch. The last node of a batch points to
///   itself.
#[repr(C)]
pub(super) struct Node<T> {
    /// The first field, so that a pointer to it is a pointer to the node. Protected by the list
    /// lock.
    links: Opaque<bindings::list_head>,
    pub(super) refs: Refcount,
    pub(super) next: Atomic<*mut Node<T>>,
    lru: ManuallyDrop<Arc<Inner<T>>>,
    pub(super) value: T,
}

/// A reference to an item of a [`ListLru`](super::ListLru).
///
/// Dropping the last reference drops the value. Each item keeps the memory of the lists alive, and
/// freeing that memory sleeps. If an item outlives its [`ListLru`](super::ListLru), drop its last
/// reference where sleeping is allowed.
///
/// # Invariants
///
/// `self` owns a reference to `node`.
pub struct Item<T: Send + Sync + 'static> {
    node: NonNull<Node<T>>,
    _node: PhantomData<Node<T>>,
}

// SAFETY: Any task may drop a reference, and so the value, while other tasks use other references.
unsafe impl<T: Send + Sync + 'static> Send for Item<T> {}

// SAFETY: A `&Item` gives access to a `&T`, and to clones, which are `Send`. C locks the lists.
unsafe impl<T: Send + Sync + 'static> Sync for Item<T> {}

/// The node does not move with the reference.
impl<T: Send + Sync + 'static> Unpin for Item<T> {}

/// A failed allocation of an [`Item`], which returns the value.
///
/// Converts to [`ENOMEM`].
pub struct NewItemError<T> {
    /// The value for which no memory was available.
    pub value: T,
}

impl<T> From<NewItemError<T>> for Error {
    fn from(_: NewItemError<T>) -> Self {
        ENOMEM
    }
}

impl<T: Send + Sync + 'static> Item<T> {
    /// Allocates an item, see [`ListLru::alloc()`](super::ListLru::alloc).
    pub(super) fn new(lru: &Arc<Inner<T>>, value: T, gfp: Gfp) -> Result<Self, NewItemError<T>> {
        let Ok(node) = lru.alloc(gfp) else {
            return Err(NewItemError { value });
        };
        // INVARIANT: The node has one reference and is in no batch.
        let init = Node {
            links: Opaque::uninit(),
            refs: Refcount::new(1),
            next: Atomic::new(ptr::null_mut()),
            lru: ManuallyDrop::new(lru.clone()),
            value,
        };
        // SAFETY: `node` is memory for a node, without other users.
        unsafe { node.write(init) };
        let links = Self::links(node);
        let empty = bindings::list_head {
            next: links,
            prev: links,
        };
        // SAFETY: `links` was written, and has no other users.
        // INVARIANT: `links` is in no list.
        unsafe { links.write(empty) };
        // INVARIANT: `self` owns the reference.
        Ok(Self {
            node,
            _node: PhantomData,
        })
    }

    /// Takes ownership of a reference to a node.
    ///
    /// # Safety
    ///
    /// The caller must own a reference to `node`, and gives it up.
    #[inline]
    pub(super) unsafe fn from_raw(node: NonNull<Node<T>>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            node,
            _node: PhantomData,
        }
    }

    /// Returns the node of a list entry.
    #[inline]
    pub(super) fn node_of(links: NonNull<bindings::list_head>) -> NonNull<Node<T>> {
        links.cast()
    }

    /// Returns the list entry of a node.
    #[inline]
    fn links(node: NonNull<Node<T>>) -> *mut bindings::list_head {
        node.cast().as_ptr()
    }

    /// Returns the node.
    #[inline]
    fn node(&self) -> &Node<T> {
        // SAFETY: `self` owns a reference, by the type invariants.
        unsafe { self.node.as_ref() }
    }

    /// Adds the item to the end of its list, unless the item is on the list.
    ///
    /// Returns whether the item was added. After the drop of the [`ListLru`](super::ListLru), and
    /// in the callback of a [walk](super::ListLru::shrink_walk), no item is added.
    ///
    /// Context: Process context. Never sleeps. C: `list_lru_add_obj()` in `mm/list_lru.c`.
    pub fn add(&self) -> bool {
        let node = self.node();
        if node.lru.closed.is_set() || !may_lock() {
            return false;
        }
        // Take the reference before another task can remove the item.
        // INVARIANT: The reference belongs to the list.
        node.refs.inc();
        // SAFETY:
        // - The lists exist by the type invariants of `Inner`.
        // - `links` is initialised, and in a list of this `ListLru` or in none, by the type
        //   invariants of `Node`.
        // - The node is in slab memory, from which C derives the NUMA node and the cgroup.
        //   `Inner::alloc()` has allocated the list of this cgroup.
        let added =
            unsafe { bindings::list_lru_add_obj(node.lru.as_raw(), Self::links(self.node)) };
        if !added {
            // This is not the last reference, as `self` owns one.
            // INVARIANT: The list has a reference already.
            node.refs.dec();
            return false;
        }
        // Either this task sees that the lists are closed, or `ListLru::drop()` sees the item.
        !(node.lru.closed.is_set_after_add() && self.del_any())
    }

    /// Removes the item from its list, if the item is on the list.
    ///
    /// Returns whether the item was removed. Returns false if a walk has isolated the item, and in
    /// the callback of a [walk](super::ListLru::shrink_walk).
    ///
    /// Context: Process context. Never sleeps. C: `list_lru_del_obj()` in `mm/list_lru.c`.
    pub fn del(&self) -> bool {
        if !may_lock() {
            return false;
        }
        self.del_any()
    }

    /// Removes the item like [`del()`](Self::del), also in the callback of a walk.
    fn del_any(&self) -> bool {
        let node = self.node();
        // SAFETY: As in `add()`.
        let deleted =
            unsafe { bindings::list_lru_del_obj(node.lru.as_raw(), Self::links(self.node)) };
        if deleted {
            // This is not the last reference, as `self` owns one.
            // INVARIANT: The reference belonged to the list.
            node.refs.dec();
        }
        deleted
    }

    /// Returns whether both references are to the same item.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn ptr_eq(this: &Self, other: &Self) -> bool {
        this.node == other.node
    }

    /// Frees a node.
    ///
    /// # Safety
    ///
    /// The node must have no references.
    unsafe fn free(node: NonNull<Node<T>>) {
        // SAFETY: The node has no other users.
        let node_ref = unsafe { &mut *node.as_ptr() };
        // SAFETY: `lru` is not used again.
        let lru = unsafe { ManuallyDrop::take(&mut node_ref.lru) };
        // SAFETY: The node is not used again. `drop_in_place()` does not drop `lru`.
        unsafe { node.drop_in_place() };
        // SAFETY: The node is from the cache of these lists, and not used again.
        unsafe { lru.free(node) };
    }
}

impl<T: Send + Sync + 'static> Clone for Item<T> {
    #[inline]
    fn clone(&self) -> Self {
        // INVARIANT: The reference belongs to the clone.
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
        // INVARIANT: The reference belonged to `self`, which is not used again.
        if self.node().refs.dec_and_test() {
            // SAFETY: It was the last reference.
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
    fn item_is_added_once() -> Result {
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
    fn list_holds_a_reference() -> Result {
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
    fn ptr_eq_compares_identity() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        let other = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;

        assert!(Item::ptr_eq(&item, &item.clone()));
        assert!(!Item::ptr_eq(&item, &other));
        Ok(())
    }

    #[test]
    fn isolated_item_can_be_added_again() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        assert!(item.add());

        // The item is isolated, and `first` has not returned it yet.
        let first = lru.walk(1, |_| Status::Isolate);
        assert!(!item.del());
        assert!(item.add());
        let second = lru.walk(1, |_| Status::Isolate);
        // `first` owns the item.
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
    fn leaked_item_is_never_dropped() -> Result {
        let (lru, drops) = (lists()?, Value::drops()?);
        let item = lru.alloc(Value::new(1, &drops), Gfp::KERNEL)?;
        assert!(item.add());

        mem::forget(lru.walk(1, |_| Status::Isolate));
        // The item stays in that batch forever, which does not prevent the drop of the lists.
        assert!(item.add());
        drop(lru);

        assert_eq!(item.number, 1);
        crate::testing::leak::forget(item)?;
        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }
}
