// SPDX-License-Identifier: GPL-2.0

//! A queue of unmapped ranges that frees them after a flush of the IOTLB.
//!
//! An unmapped range must not be allocated again while the IOTLB may hold translations of it. A
//! flush per range is slow. A [`FlushQueue`] collects ranges, and frees many of them after one
//! flush: C's "lazy" mode. Its ranges are from a [`CachedDomain`](super::CachedDomain) or any other
//! [`Space`](super::Space).
//!
//! # The protocol
//!
//! [`Counters`] count the flushes that have begun and those that have ended. A queued range records
//! the number of flushes that had begun. It is freed once more flushes than that have ended: then
//! at least one flush began after the range was queued, and has ended.
//!
//! Each CPU has a [`Ring`] of ranges with its own lock. The CPU frees flushed ranges whenever it
//! queues a range, and flushes when its ring is full. A timer handles the remaining ranges 10 ms
//! after the first one was queued: it flushes once, and frees the ranges of all CPUs into the
//! caches of the CPU that it runs on. If it cannot free all of them, it is armed again. C's timer
//! is not: such ranges wait until another range is queued.
//!
//! C also flushes a full ring once. The ring may still be full then: if flushes that began before
//! its ranges were queued end after its own flush. C adds the range all the same, and the ring
//! looks empty. A [`Ring`] flushes again.
//!
//! # Context
//!
//! Ranges are queued in any context except NMI, without sleeping. [`Iotlb::flush_all()`] is called
//! with interrupts off and the lock of a ring held, by the timer in a softirq, or by a task that
//! flushes or drops the queue. Several CPUs may call it at once. It must not use its own queue, or
//! another one whose `flush_all()` uses the first, as it would wait for the lock of the ring
//! (deadlock): types do not prevent that.
//!
//! Not supported: C's single ring for all CPUs, and freeing page tables along with ranges.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../../samples/examples/flush_queue.rs")]
//! ```
//!
//! C source: [`drivers/iommu/dma-iommu.c`](srctree/drivers/iommu/dma-iommu.c)

use kernel::sync::{
    atomic,
    barrier, //
};

mod armed;
mod counters;
mod instance;
mod queue;
mod ring;
mod timer;

pub use counters::Counters;
pub use queue::{
    FlushQueue,
    Iotlb, //
};
pub use ring::{
    Ring,
    RING_SIZE, //
};
