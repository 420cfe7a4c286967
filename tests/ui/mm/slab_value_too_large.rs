// SPDX-License-Identifier: GPL-2.0

//! Objects of a slab leave room for what `slab_debug` adds to them.

use kernel::prelude::*;

use kscale::mm::slab::Cache;

pub fn creates() -> Result<Cache<[u8; (2 << 20) + 1]>> {
    Cache::new(c"large")
}
