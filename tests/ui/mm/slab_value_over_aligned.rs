// SPDX-License-Identifier: GPL-2.0

//! Objects of a slab are not aligned to more than a page.

use kernel::prelude::*;

use kscale::mm::slab::Cache;

#[repr(align(8192))]
pub struct Aligned(u8);

pub fn creates() -> Result<Cache<Aligned>> {
    Cache::new(c"aligned")
}
