// SPDX-License-Identifier: GPL-2.0

//! A range goes back to its domain, so it must not outlive that.

use kscale::iommu::iova::{
    Alignment,
    Domain,
    Range, //
};

use kernel::prelude::*;

fn drops_domain(domain: Domain, uses: fn(Result<Range<&Domain>>)) {
    let range = domain.alloc(1, 100, Alignment::Any);
    drop(domain);
    uses(range);
}
