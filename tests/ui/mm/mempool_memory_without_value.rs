// SPDX-License-Identifier: GPL-2.0

//! There is no value in memory before one is written.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Kmalloc,
        Mempool, //
    }, //
};

fn reads(pool: &Mempool<Kmalloc<u64>>) -> Result<u64> {
    let memory = pool.alloc(Gfp::NOIO)?;
    Ok(*memory)
}
