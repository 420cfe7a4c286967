// SPDX-License-Identifier: GPL-2.0

//! How flushes are counted, whatever the atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s and the `barrier`s of either.
//!
//! Somebody changes what is flushed, such as a page table, and then looks how many flushes have
//! [begun](Counters::started). Somebody else counts a flush that begins, and then has the device look
//! at the page table. With a full barrier between the two on either side, at least one sees what the
//! other did first: a flush that is not among those that have begun sees the change. So does one of
//! those that have ended, once they are more than had begun.

use super::{
    atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    barrier::{
        smp_mb,
        Full, //
    }, //
};

/// How many flushes there were.
///
/// # Invariants
///
/// `finished` flushes have ended. No more than `started` have begun.
pub struct Counters {
    started: Atomic<u64>,
    finished: Atomic<u64>,
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

impl Counters {
    /// Starts at 0.
    ///
    /// Context: any.
    pub fn new() -> Self {
        // INVARIANT: There was none.
        Self {
            started: Atomic::new(0),
            finished: Atomic::new(0),
        }
    }

    /// Calls `flush`, and counts it.
    ///
    /// Context: that of `flush`. C: `fq_flush_iotlb()` in `drivers/iommu/dma-iommu.c`.
    #[inline]
    pub fn flush(&self, flush: impl FnOnce()) {
        // INVARIANT: It begins.
        //
        // OVERFLOW: Not in centuries.
        self.started.fetch_add(1, Relaxed);
        // Pairs with the one in `started()`.
        smp_mb(Full);

        flush();

        // INVARIANT: It has ended.
        self.finished.fetch_add(1, Release);
    }

    /// Returns how many flushes have begun.
    ///
    /// Any that begins later sees what the caller has changed before.
    ///
    /// Context: any.
    #[inline]
    pub fn started(&self) -> u64 {
        // Pairs with the one in `flush()`.
        smp_mb(Full);
        self.started.load(Relaxed)
    }

    /// Returns how many flushes have ended.
    ///
    /// Context: any.
    #[inline]
    pub fn finished(&self) -> u64 {
        self.finished.load(Acquire)
    }
}
