// SPDX-License-Identifier: GPL-2.0

//! Counts of pending values, independent of the implementation of atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` both run this file. The parent
//! module supplies the `atomic` module.
//!
//! Each destructor has two counts that only grow. A task that waits for several destructors first
//! sums the ended values, then the begun values. A destructor may begin a value of another
//! destructor before its own value ends. A task that sees the end also sees this begin. So the sums
//! are equal only if no value is left.

use super::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// The counts of one destructor.
pub(super) struct Counts {
    /// Values that became pending. Never decreases.
    begun: Atomic<u64>,
    /// Values that were destroyed. Never decreases.
    ended: Atomic<u64>,
}

impl Counts {
    /// Creates counts without a value.
    pub(super) fn new() -> Self {
        Self {
            begun: Atomic::new(0),
            ended: Atomic::new(0),
        }
    }

    /// Counts a value that becomes pending.
    #[inline]
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Relaxed);
    }

    /// Counts a destroyed value. The code of the destructor may be unloaded from here on.
    #[inline]
    pub(super) fn end(&self) {
        // Release: orders all effects of the destructor, such as the begin of other values, before
        // the end.
        self.ended.fetch_add(1, Release);
    }

    /// Returns the number of values that became pending.
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Relaxed)
    }

    /// Returns the number of values left in all `counts`: 0 only if none is left.
    ///
    /// The caller sees all effects of the destructors of ended values.
    pub(super) fn left<'a, I: Iterator<Item = &'a Self>>(counts: impl Fn() -> I) -> u64 {
        // OVERFLOW: A `u64` does not overflow in centuries.
        let ended = counts().fold(0_u64, |sum, it| sum.wrapping_add(it.ended.load(Acquire)));
        let begun = counts().fold(0_u64, |sum, it| sum.wrapping_add(it.begun.load(Relaxed)));
        begun.wrapping_sub(ended)
    }
}
