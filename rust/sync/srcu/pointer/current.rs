// SPDX-License-Identifier: GPL-2.0

//! Where readers find a node, whatever the atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either.

use core::ptr::NonNull;

use super::atomic::{
    Acquire,
    Atomic,
    Full, //
};

/// The address of a node, which may be replaced while others follow it.
///
/// # Invariants
///
/// It is not NULL.
pub(super) struct Current<N>(Atomic<*mut N>);

impl<N> Current<N> {
    /// Starts with a node.
    pub(super) fn new(node: NonNull<N>) -> Self {
        // INVARIANT: By the type of `node`.
        Self(Atomic::new(node.as_ptr()))
    }

    /// Returns the node. What was done with it before it got there is seen by the caller.
    #[inline]
    pub(super) fn load(&self) -> NonNull<N> {
        // SAFETY: By the type invariants.
        unsafe { NonNull::new_unchecked(self.0.load(Acquire)) }
    }

    /// Replaces the node, and returns the one before.
    #[inline]
    pub(super) fn replace(&self, node: NonNull<N>) -> NonNull<N> {
        // INVARIANT: By the type of `node`.
        let old = self.0.xchg(node.as_ptr(), Full);
        // SAFETY: By the type invariants.
        unsafe { NonNull::new_unchecked(old) }
    }
}
