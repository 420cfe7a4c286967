// SPDX-License-Identifier: GPL-2.0

//! A range that was not allocated must not be freed, nor with another size.

use kscale::iommu::iova::{
    Domain,
    Range, //
};

fn makes_up(range: &mut Range<&Domain>) {
    range.size_pfns = 2;
}
