// SPDX-License-Identifier: GPL-2.0

//! What is cached goes with its domain, so no range may be freed into it later.

use kscale::iommu::iova::{
    CachedDomain,
    Range,
    WhenFull, //
};

use kernel::prelude::*;

fn drops_domain(domain: CachedDomain, uses: fn(Result<Range<&CachedDomain>>)) {
    let range = domain.alloc_fast(1, 100, WhenFull::Fail);
    drop(domain);
    uses(range);
}
