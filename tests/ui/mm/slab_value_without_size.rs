// SPDX-License-Identifier: GPL-2.0

//! Values without a size need no memory, and a slab has none for them.

use kernel::prelude::*;

use kscale::mm::slab::Cache;

pub fn creates() -> Result<Cache<()>> {
    Cache::new(c"nothing")
}
