// SPDX-License-Identifier: GPL-2.0

//! The address of the current node, independent of the implementation of atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` both run this file. The parent
//! module supplies the `atomic` module.

use core::ptr::NonNull;

use super::atomic::{
    Acquire,
    Atomic,
    Full, //
};

/// The address of a node, which writers may replace while readers follow it.
///
/// # Invariants
///
/// The address is not NULL.
pub(super) struct Current<N>(Atomic<*mut N>);

impl<N> Current<N> {
    /// Creates an address of `node`.
    pub(super) fn new(node: NonNull<N>) -> Self {
        // INVARIANT: By the type of `node`.
        Self(Atomic::new(node.as_ptr()))
    }

    /// Returns the node. The caller sees all writes to the node that preceded its publication.
    #[inline]
    pub(super) fn load(&self) -> NonNull<N> {
        // SAFETY: By the type invariants.
        unsafe { NonNull::new_unchecked(self.0.load(Acquire)) }
    }

    /// Replaces the node, and returns the previous node.
    #[inline]
    pub(super) fn replace(&self, node: NonNull<N>) -> NonNull<N> {
        // INVARIANT: By the type of `node`.
        let old = self.0.xchg(node.as_ptr(), Full);
        // SAFETY: By the type invariants.
        unsafe { NonNull::new_unchecked(old) }
    }
}
