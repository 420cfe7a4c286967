// SPDX-License-Identifier: GPL-2.0

//! What may still be reserved is not handed out.

use kscale::iommu::iova::{
    Alignment,
    Builder, //
};

fn allocates(builder: &Builder) {
    let _ = builder.alloc(1, 100, Alignment::Any);
}
