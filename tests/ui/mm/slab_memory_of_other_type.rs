// SPDX-License-Identifier: GPL-2.0

//! A cache has memory for values of one type.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    slab::Cache, //
};

fn writes(cache: &Cache<u64>) -> Result {
    cache.alloc(Gfp::KERNEL)?.write([1u64; 2]);
    Ok(())
}
