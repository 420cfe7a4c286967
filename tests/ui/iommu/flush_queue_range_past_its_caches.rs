// SPDX-License-Identifier: GPL-2.0

//! A range that did not come from the caches must not go there: it may be of any size.

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    CachedDomain,
    Domain,
    Range, //
};

fn queues<T: Iotlb>(queue: &FlushQueue<CachedDomain, T>, range: Range<&Domain>) {
    drop(queue.queue(range));
}
