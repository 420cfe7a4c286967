// SPDX-License-Identifier: GPL-2.0

//! Memory has room for one value.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Kmalloc,
        Mempool, //
    }, //
};

fn writes(pool: &Mempool<Kmalloc<u64>>, uses: fn(u64, u64)) -> Result {
    let memory = pool.alloc(Gfp::NOIO)?;
    let (first, second) = (memory.write(1), memory.write(2));
    uses(*first, *second);
    Ok(())
}
