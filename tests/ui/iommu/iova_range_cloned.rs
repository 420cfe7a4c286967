// SPDX-License-Identifier: GPL-2.0

//! Two of the same range would free it twice.

use kscale::iommu::iova::{
    Domain,
    Range, //
};

fn clones(range: Range<&Domain>) -> [Range<&Domain>; 2] {
    [Clone::clone(&range), range]
}
