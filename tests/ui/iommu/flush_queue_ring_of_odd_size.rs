// SPDX-License-Identifier: GPL-2.0

//! Indices of a ring wrap around by a mask.

use kernel::prelude::*;

use kscale::iommu::iova::flush_queue::Ring;

/// Makes a ring whose size is no power of two.
pub fn makes() -> Result<KBox<Ring<u8, 100>>> {
    KBox::init(Ring::new(), GFP_KERNEL)
}
