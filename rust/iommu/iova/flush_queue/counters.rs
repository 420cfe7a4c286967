// SPDX-License-Identifier: GPL-2.0

//! Counters of flushes, generic over the atomics.
//!
//! The kernel and the interleaving checker of `tests/host/loom` compile this file. The parent
//! module provides the `atomic`s and the `barrier`s.
//!
//! One side changes an input of the flush, such as a page table, and then reads how many flushes
//! have [begun](Counters::started). The other side counts a new flush, and then makes the device
//! read the page table. Each side has a full barrier between its two steps, so at least one side
//! sees the first step of the other: a flush that is not counted as begun sees the change. Once
//! more flushes have ended than had begun, at least one of them saw the change.

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

/// The numbers of flushes that have begun and that have ended.
///
/// # Invariants
///
/// `finished` flushes have ended. At most `started` flushes have begun.
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
    /// Creates counters with the value 0.
    ///
    /// Context: Any context. Never sleeps.
    pub fn new() -> Self {
        // INVARIANT: There was no flush.
        Self {
            started: Atomic::new(0),
            finished: Atomic::new(0),
        }
    }

    /// Calls `flush`, and counts it.
    ///
    /// Context: The context of `flush`. C: `fq_flush_iotlb()` in `drivers/iommu/dma-iommu.c`.
    #[inline]
    pub fn flush(&self, flush: impl FnOnce()) {
        // INVARIANT: A flush begins.
        //
        // OVERFLOW: A `u64` takes centuries.
        self.started.fetch_add(1, Relaxed);
        // Pairs with the one in `started()`.
        smp_mb(Full);

        flush();

        // INVARIANT: A flush has ended.
        self.finished.fetch_add(1, Release);
    }

    /// Returns the number of flushes that have begun.
    ///
    /// A flush that begins later sees all changes that the caller made before.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn started(&self) -> u64 {
        // Pairs with the one in `flush()`.
        smp_mb(Full);
        self.started.load(Relaxed)
    }

    /// Returns the number of flushes that have ended.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn finished(&self) -> u64 {
        self.finished.load(Acquire)
    }
}
