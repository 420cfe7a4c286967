// SPDX-License-Identifier: GPL-2.0

//! Caches come before ranges that go there, so the domain is not shared yet.

use kscale::iommu::iova::{
    Alignment,
    Domain, //
};

fn initialises(domain: Domain) {
    let range = domain.alloc(1, 100, Alignment::Any);
    drop(domain.init_rcaches());
    drop(range);
}
