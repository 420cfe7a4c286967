// SPDX-License-Identifier: GPL-2.0

//! C has no caches to look into before they are initialised.

use kscale::iommu::iova::{
    Domain,
    WhenFull, //
};

fn allocates(domain: &Domain) {
    let _ = domain.alloc_fast(1, 100, WhenFull::Fail);
}
