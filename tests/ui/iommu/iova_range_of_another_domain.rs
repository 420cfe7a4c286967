// SPDX-License-Identifier: GPL-2.0

//! A range goes back to the domain that it is from: no domain takes one.

use kscale::iommu::iova::{
    Domain,
    Range, //
};

fn frees_elsewhere(range: Range<&Domain>, other: &Domain) {
    other.free(range);
}
