// SPDX-License-Identifier: GPL-2.0

//! The closed state of lists, independent of the type of atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` both compile this file. The parent
//! module provides the `atomic` and `barrier` modules in both cases.
//!
//! The drop of lists closes them first, and then removes all items. A task adds an item first, and
//! then checks whether the lists are closed. Both have a full barrier between the two steps, so at
//! least one of them sees the first step of the other.

use super::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    barrier::{
        smp_mb,
        Full, //
    }, //
};

/// Whether the lists accept no more items.
pub(super) struct Closed(Atomic<bool>);

impl Closed {
    /// Creates the state of open lists.
    pub(super) fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Returns whether the lists are closed. The result may be stale.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Returns whether the lists are closed, so that the caller must remove the item that it added.
    ///
    /// If the result is false, the task that closes the lists sees the item.
    #[inline]
    pub(super) fn is_set_after_add(&self) -> bool {
        // Pairs with the one in `set()`.
        smp_mb(Full);
        self.0.load(Relaxed)
    }

    /// Closes the lists. If the caller does not see an item on a list after this, the task that
    /// added the item removes it.
    pub(super) fn set(&self) {
        self.0.store(true, Relaxed);
        // Pairs with the one in `is_set_after_add()`.
        smp_mb(Full);
    }
}
