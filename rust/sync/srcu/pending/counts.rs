// SPDX-License-Identifier: GPL-2.0

//! How values on their way are counted, whatever the atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either.
//!
//! Each destructor has two counts that only grow. Who waits for several destructors first adds up the
//! values that have ended, then those that have begun. A destructor may begin a value of another one
//! before it ends itself. Who sees its end also sees that, so the sums are the same only if no value is
//! left.

use super::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The values of one destructor.
pub(super) struct Counts {
    /// Values that started on their way. Never gets less.
    begun: Atomic<u64>,
    /// Values that were destroyed. Never gets less.
    ended: Atomic<u64>,
}

impl Counts {
    /// Starts with no value.
    pub(super) fn new() -> Self {
        Self {
            begun: Atomic::new(0),
            ended: Atomic::new(0),
        }
    }

    /// Counts a value that starts on its way.
    #[inline]
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// Counts a value that was destroyed. The code that did it may go from here on.
    #[inline]
    pub(super) fn end(&self) {
        // After all that the destructor did, such as to begin other values.
        self.ended.fetch_add(1, Release);
    }

    /// Returns how many values are left of all that `counts` returns: 0 only if none is.
    ///
    /// What destructors did whose values are not left is seen by the caller.
    pub(super) fn left<'a, I: Iterator<Item = &'a Self>>(counts: impl Fn() -> I) -> u64 {
        // OVERFLOW: Not in centuries.
        let ended = counts().fold(0_u64, |sum, it| sum.wrapping_add(it.ended.load(Acquire)));
        let begun = counts().fold(0_u64, |sum, it| sum.wrapping_add(it.begun.load(Relaxed)));
        begun.wrapping_sub(ended)
    }
}
