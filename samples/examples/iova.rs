// SPDX-License-Identifier: GPL-2.0

//! Allocates addresses for the buffers of a device, outside of a window for interrupts.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

use core::ops::RangeInclusive;

use kscale::iommu::iova::{
    Builder,
    CachedDomain,
    Range,
    WhenFull, //
};

const INTERRUPTS_PFNS: RangeInclusive<usize> = 0xfee00..=0xfeeff;

/// The last page frame below 4 GiB.
const LAST_32BIT_PFN: usize = (1 << 32) / PAGE_SIZE - 1;

struct Buffer {
    /// Freed with its size when the buffer is dropped. Holds a reference to the domain.
    iova: Range<Arc<CachedDomain>>,
    len_bytes: usize,
}

impl Buffer {
    fn new(domain: &Arc<CachedDomain>, len_bytes: usize) -> Result<Self> {
        let size_pfns = len_bytes.div_ceil(domain.granule_bytes());
        if size_pfns > CachedDomain::MAX_CACHED_PFNS {
            // Each allocation would take the lock of the tree.
            return Err(E2BIG);
        }
        // Try 32-bit addresses first, without flushing the caches for them.
        let iova = domain
            .alloc_fast_arc(size_pfns, LAST_32BIT_PFN, WhenFull::Fail)
            .or_else(|_| {
                domain.alloc_fast_arc(size_pfns, domain.last_pfn(), WhenFull::FlushRcaches)
            })?;

        Ok(Self { iova, len_bytes })
    }
}

pub(crate) fn example() -> Result {
    let mut builder = Builder::new(PAGE_SIZE, 1)?;
    builder.reserve(INTERRUPTS_PFNS)?;
    // No window can be reserved after this call.
    let domain = Arc::new(builder.build().init_rcaches()?, GFP_KERNEL)?;

    let buffer = Buffer::new(&domain, 10_000)?;
    pr_info!(
        "{} bytes in {} page frames at {:#x}\n",
        buffer.len_bytes,
        buffer.iova.size_pfns(),
        buffer.iova.addr()
    );
    Ok(())
}
