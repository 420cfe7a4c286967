// SPDX-License-Identifier: GPL-2.0

//! Whether lists take no more items, whatever the atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s and the `barrier`s of either.
//!
//! Who drops lists closes them, and then takes off what is on them. Who adds an item does so, and then
//! looks whether they are closed. With a full barrier between the two on either side, at least one of
//! them sees what the other did first.

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

/// Whether nothing is to be added any more.
pub(super) struct Closed(Atomic<bool>);

impl Closed {
    /// Starts open.
    pub(super) fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Tells whether nothing is to be added. May be late to tell.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }

    /// Tells who has added an item whether to take it off again.
    ///
    /// If not then who closes the lists finds it.
    #[inline]
    pub(super) fn is_set_after_add(&self) -> bool {
        // Pairs with the one in `set()`.
        smp_mb(Full);
        self.0.load(Relaxed)
    }

    /// Has nothing be added any more. What the caller does not find on a list from now on is taken off
    /// by who added it.
    pub(super) fn set(&self) {
        self.0.store(true, Relaxed);
        // Pairs with the one in `is_set_after_add()`.
        smp_mb(Full);
    }
}
