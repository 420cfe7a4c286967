// SPDX-License-Identifier: GPL-2.0

//! What is queued is the queue's to free.

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    CachedDomain,
    Range, //
};

fn uses<T: Iotlb>(queue: &FlushQueue<CachedDomain, T>, range: Range<&CachedDomain>) -> usize {
    drop(queue.queue(range));
    range.pfn()
}
