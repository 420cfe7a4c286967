// SPDX-License-Identifier: GPL-2.0

//! A range is freed by whoever has it, and nobody has it after that.

use kscale::iommu::iova::{
    Domain,
    Range, //
};

fn frees_twice(range: Range<&Domain>) {
    drop(range);
    drop(range);
}
