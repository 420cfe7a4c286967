// SPDX-License-Identifier: GPL-2.0

//! Whether the timer of a queue is armed, whatever the atomics and the timer.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either.
//!
//! Whoever queues a range in a ring, under the lock of that, arms the timer afterwards unless it is
//! armed. The timer first notes that it is not, then flushes, and then takes the lock of each ring to
//! free what it can.
//!
//! - If the range was queued when the timer took the lock of its ring then the timer sees to it. It may
//!   have to leave it there: if the flush had begun before, of this timer or of another CPU. Then it
//!   arms itself again.
//! - If not then who queued it took the lock after the timer, and sees that it is not armed, or that
//!   somebody arms it now.
//!
//! So no order is needed but that of the locks, and everything here is `Relaxed`.

use super::atomic::{
    Atomic,
    Relaxed, //
};

/// Whether a timer is armed, or about to be.
pub(super) struct Armed(Atomic<bool>);

impl Armed {
    /// Starts with a timer that is not armed.
    pub(super) fn new() -> Self {
        Self(Atomic::new(false))
    }

    /// Calls `arm`, which arms the timer, unless it is armed.
    ///
    /// To be called after something was queued, without the lock of a ring.
    #[inline]
    pub(super) fn arm(&self, arm: impl FnOnce()) {
        // Most find that it is on, and leave the line shared.
        if !self.0.load(Relaxed) && !self.0.xchg(true, Relaxed) {
            arm();
        }
    }

    /// Calls `flush`, and then `arm` if that has left something and nobody else arms the timer.
    ///
    /// To be called by the timer.
    pub(super) fn expire(&self, flush: impl FnOnce() -> bool, arm: impl FnOnce()) {
        // Who queues something from here on arms it again.
        self.0.store(false, Relaxed);
        if flush() {
            self.arm(arm);
        }
    }
}
