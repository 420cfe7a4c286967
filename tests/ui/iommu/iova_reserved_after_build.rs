// SPDX-License-Identifier: GPL-2.0

//! To reserve what is in use would extend it, so that comes to an end first.

use kscale::iommu::iova::Builder;

use kernel::prelude::*;

fn reserves_late(mut builder: Builder) -> Result {
    let domain = builder.build();
    builder.reserve(1..=2)?;
    drop(domain);
    Ok(())
}
