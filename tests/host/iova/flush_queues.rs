// SPDX-License-Identifier: GPL-2.0

//! A model of the flush queues of `drivers/iommu/dma-iommu.c`, for the host tests and
//! `bench/lines`. Flushes take no time.

use std::collections::VecDeque;

/// Entries of a flush queue. C: `IOVA_DEFAULT_FQ_SIZE`, of which one stays free.
const QUEUE_LEN: usize = 255;

/// The size of C's node of a range, which is aligned to cache lines.
pub(super) const NODE_BYTES: usize = 64;

/// A queue for each CPU, with ranges `R`.
pub(super) struct FlushQueues<R> {
    /// The order of each range, the range, and the number of flushes that had begun when it was
    /// queued.
    queues: Vec<VecDeque<(usize, R, usize)>>,
    flushes: usize,
}

impl<R> FlushQueues<R> {
    pub(super) fn new(cpus: usize) -> Self {
        Self {
            queues: (0..cpus).map(|_| VecDeque::new()).collect(),
            flushes: 0,
        }
    }

    /// Queues a range, and passes the flushed ranges of the queue to `free`. Flushes if the queue is
    /// full. C: `queue_iova()`.
    pub(super) fn queue(
        &mut self,
        cpu: usize,
        order: usize,
        range: R,
        mut free: impl FnMut(usize, R),
    ) {
        self.free_flushed(cpu, &mut free);
        if self.queues[cpu].len() == QUEUE_LEN {
            self.flush();
            self.free_flushed(cpu, &mut free);
        }
        self.queues[cpu].push_back((order, range, self.flushes));
    }

    /// Flushes all ranges that are queued.
    pub(super) fn flush(&mut self) {
        self.flushes += 1;
    }

    /// Passes the flushed ranges of a queue to `free`. C: `fq_ring_free_locked()`.
    pub(super) fn free_flushed(&mut self, cpu: usize, mut free: impl FnMut(usize, R)) {
        let queue = &mut self.queues[cpu];
        while queue.front().is_some_and(|entry| entry.2 < self.flushes) {
            if let Some((order, range, _)) = queue.pop_front() {
                free(order, range);
            }
        }
    }
}
