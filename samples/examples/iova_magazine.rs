// SPDX-License-Identifier: GPL-2.0

//! Caches ranges in per-CPU magazines, and counts the saved tree operations.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use kscale::iommu::iova::{
    magazine::{
        Cache,
        Policy, //
    },
    Builder,
    WhenFull, //
};

/// Ranges must be below 4 GiB.
const LIMIT_PFN: usize = (1 << 32) / PAGE_SIZE - 1;

pub(crate) fn example() -> Result {
    let domain = Builder::new(PAGE_SIZE, 1)?.build();
    let cache = Cache::new(Arc::new(domain, GFP_KERNEL)?, Policy::Adaptive)?;
    let cache = Arc::new(cache, GFP_KERNEL)?;

    for _io in 0..1000 {
        let range = cache.alloc(3, LIMIT_PFN, WhenFull::FlushRcaches)?;
        // The range has four page frames and is aligned to its size.
        if range.pfn() % 4 != 0 {
            return Err(EINVAL);
        }
        // The range returns to the magazines of this CPU here.
    }

    // 1, unless the task migrates: the next I/O allocates the range that this I/O frees.
    pr_info!("{} of 1000 from the tree\n", cache.counts().tree_allocs);

    // A range that is stored in a struct holds a reference to the cache.
    let stored = cache.alloc_arc(3, LIMIT_PFN, WhenFull::FlushRcaches)?;
    let usage = cache.usage();
    pr_info!("{:#x}, {} cached\n", stored.addr(), usage.cached);
    Ok(())
}
