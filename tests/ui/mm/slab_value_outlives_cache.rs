// SPDX-License-Identifier: GPL-2.0

//! A value is in memory of its cache, so it must not outlive that.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    slab::Cache, //
};

fn drops_cache(cache: Cache<u64>, uses: fn(&u64)) -> Result {
    let value = cache.alloc(Gfp::KERNEL)?.write(1);
    drop(cache);
    uses(&value);
    Ok(())
}
