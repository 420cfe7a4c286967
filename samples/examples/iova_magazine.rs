// SPDX-License-Identifier: GPL-2.0

//! Caches ranges in magazines of each CPU, and sees what that saves.

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

    for _io in 0..1000 {
        let range = cache.alloc(3, LIMIT_PFN, WhenFull::FlushRcaches)?;
        // It takes up four page frames, and starts at a multiple of that.
        if range.pfn() % 4 != 0 {
            return Err(EINVAL);
        }
        // The range goes back to this CPU's magazines here.
    }

    // 1, unless this task has moved: what one I/O frees the next one allocates.
    pr_info!("{} of 1000 from the tree\n", cache.counts().tree_allocs);
    Ok(())
}
