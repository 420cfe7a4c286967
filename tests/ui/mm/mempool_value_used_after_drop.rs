// SPDX-License-Identifier: GPL-2.0

//! The memory of a value goes back to the pool with it, so nothing in it must be borrowed any longer.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Kmalloc,
        Mempool, //
    }, //
};

fn uses(pool: &Mempool<Kmalloc<u64>>, uses: fn(&u64)) -> Result {
    let value = pool.alloc(Gfp::NOIO)?.write(1);
    let borrowed = &*value;
    drop(value);
    uses(borrowed);
    Ok(())
}
