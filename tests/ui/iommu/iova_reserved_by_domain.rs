// SPDX-License-Identifier: GPL-2.0

//! A domain hands out ranges, so nothing can be reserved any more.

use kscale::iommu::iova::Domain;

fn reserves(domain: &mut Domain) {
    let _ = domain.reserve(1..=2);
}
