// SPDX-License-Identifier: GPL-2.0

//! A range goes back to the magazines of its cache, so it must not outlive that.

use kscale::iommu::iova::{
    magazine::VirtualCache,
    Range,
    WhenFull, //
};

use kernel::prelude::*;

fn drops_cache(cache: VirtualCache, uses: fn(Result<Range<&VirtualCache>>)) {
    let range = cache.alloc(1, 100, WhenFull::FlushRcaches);
    drop(cache);
    uses(range);
}
