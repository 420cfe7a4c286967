// SPDX-License-Identifier: GPL-2.0

//! Ranges that wait until no device can use them any more.
//!
//! A range that was unmapped must not be handed out again while translations of it may be in the
//! IOTLB. To flush that for each range is slow; a [`FlushQueue`] collects ranges, and frees many of
//! them after one flush: C's "lazy" mode. It is over a [`CachedDomain`](super::CachedDomain), or any
//! other [`Space`](super::Space).
//!
//! # The protocol
//!
//! [`Counters`] count the flushes that began and those that ended. A range is noted with how many had
//! begun when it was queued, and freed once more than those have ended: then at least one has ended
//! that began later. Each CPU has a [`Ring`] of ranges under a lock of its own; it frees what it can
//! whenever it queues a range, and flushes when it is full. What is left behind a timer takes care
//! of, 10 ms after the first range was queued: it flushes once, and frees the ranges of all CPUs into
//! the caches of the one that it runs on. If it has to leave some, it comes again; C's does not, and
//! leaves them until another range is queued.
//!
//! C flushes a full ring once, too, but may find it still full: if flushes that had begun before its
//! ranges were queued end after its own. It adds the range all the same, and the ring looks empty.
//! A [`Ring`] flushes again.
//!
//! # Context
//!
//! Ranges are queued in any context but NMI, without sleeping. [`Iotlb::flush_all()`] is called with
//! interrupts off and the lock of a ring held, by the timer in a softirq, or by who flushes or drops
//! the queue; by several CPUs at once.
//! It must not use the queue that it is of, as that would wait for the ring's lock: types do not
//! prevent it.
//!
//! Not supported: C's single ring for all CPUs, and the freeing of page tables along with ranges.
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
