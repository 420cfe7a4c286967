// SPDX-License-Identifier: GPL-2.0

//! A flush queue frees into its own space: what is from the tree is not for magazines.

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    magazine::Cache,
    Domain,
    Range, //
};

fn mixes_up<T: Iotlb>(queue: &FlushQueue<Cache, T>, range: Range<&Domain>) {
    let _ = queue.queue(range);
}
