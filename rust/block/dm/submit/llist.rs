// SPDX-License-Identifier: GPL-2.0

//! A list that many add to at once, and one takes all of, whatever the atomics and the nodes.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either. As `struct llist_head` in `include/linux/llist.h`, but for where the
//! nodes have their links.
//!
//! Nobody follows a link before all of the list is taken, so it does no harm that a node which
//! somebody has seen in front was taken and is there again: what is behind it then is behind it.

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

/// The address of the first node, the newest.
pub(super) struct Llist<N>(Atomic<*mut N>);

impl<N> Llist<N> {
    /// Creates an empty list.
    pub(super) fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// Adds a node in front, and tells whether it is the only one.
    ///
    /// Calls `link` with what is to be behind it, again if others were quicker. What was done with
    /// the node before, by `link` too, is seen by who takes it.
    ///
    /// Of all that are added until the list is [taken](Self::del_all), one is told that it is the
    /// only one. The others may be gone when this returns. C: `llist_add()`.
    #[inline]
    pub(super) fn add(&self, node: NonNull<N>, mut link: impl FnMut(Option<NonNull<N>>)) -> bool {
        let mut first = self.0.load(Relaxed);

        loop {
            link(NonNull::new(first));
            match self.0.cmpxchg(first, node.as_ptr(), Release) {
                // What was there is what was expected.
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
