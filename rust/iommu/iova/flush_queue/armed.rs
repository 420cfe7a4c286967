// SPDX-License-Identifier: GPL-2.0

//! The armed state of a queue's timer, generic over the atomics and the timer.
//!
//! The kernel and the interleaving checker of `tests/host/loom` compile this file. The parent
//! module provides the `atomic`s.
//!
//! A task queues a range under the lock of a ring. After it, the task arms the timer unless it is
//! armed. The timer first clears the state, then flushes, and then takes the lock of each ring and
//! frees the flushed ranges.
//!
//! - If the range was queued before the timer takes the lock of its ring, the timer handles it. The
//!   timer may have to keep the range: if its flush, or that of another CPU, began before the range
//!   was queued. Then it arms itself again.
//! - If not, the task took the lock after the timer. It sees that the timer is not armed, or that
//!   another task arms it now.
//!
//! So the order of the locks is enough, and all accesses here are `Relaxed`.

use super::atomic::{
    Atomic,
    Relaxed, //
};

/// Whether a timer is armed, or is about to be.
pub(super) struct Armed(Atomic<bool>);

impl Armed {
    /// Creates the state of a timer that is not armed.
    pub(super) fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Calls `arm` to arm the timer, unless it is armed.
    ///
    /// Must be called after a range was queued, without the lock of a ring.
    #[inline]
    pub(super) fn arm(&self, arm: impl FnOnce()) {
        // Usually the timer is armed: the load keeps the cache line shared.
        if !self.0.load(Relaxed) && !self.0.xchg(true, Relaxed) {
            arm();
        }
    }

    /// Calls `flush`, and calls `arm` if `flush` has kept ranges and no other task arms the timer.
    ///
    /// Must be called by the timer.
    pub(super) fn expire(&self, flush: impl FnOnce() -> bool, arm: impl FnOnce()) {
        // A task that queues a range from here on arms the timer again.
        self.0.store(false, Relaxed);
        if flush() {
            self.arm(arm);
        }
    }
}
