// SPDX-License-Identifier: GPL-2.0

//! A lock-less list with many producers and a consumer that takes all nodes. Generic over nodes and
//! atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` compile this file; the parent
//! module provides the `atomic`s of either. As `struct llist_head` in `include/linux/llist.h`,
//! except for the place of the links.
//!
//! Links are only followed after the whole list was taken. So ABA is harmless: if the first node
//! that a producer has seen was taken and added again, it is still the correct successor.

use core::{
    ptr,
    ptr::NonNull, //
};

use super::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The address of the first node, which is the newest.
pub(super) struct Llist<N>(Atomic<*mut N>);

impl<N> Llist<N> {
    /// Creates an empty list.
    pub(super) fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// Adds a node at the front, and returns whether the list was empty.
    ///
    /// Calls `link` with the successor of the node, and again after each race with another
    /// producer. All writes to the node before `add`, and those of `link`, are visible to the task
    /// that takes the node.
    ///
    /// Of all nodes that are added until the list is [taken](Self::del_all), exactly one `add`
    /// returns `true`. All other nodes may be gone when `add` returns. C: `llist_add()`.
    #[inline]
    pub(super) fn add(&self, node: NonNull<N>, mut link: impl FnMut(Option<NonNull<N>>)) -> bool {
        let mut first = self.0.load(Relaxed);

        loop {
            link(NonNull::new(first));
            match self.0.cmpxchg(first, node.as_ptr(), Release) {
                // The list did not change, so `first` is the old head.
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Takes all nodes, and returns the newest. C: `llist_del_all()`.
    #[inline]
    pub(super) fn del_all(&self) -> Option<NonNull<N>> {
        NonNull::new(self.0.xchg(ptr::null_mut(), Acquire))
    }
}
