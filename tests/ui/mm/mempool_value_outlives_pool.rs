// SPDX-License-Identifier: GPL-2.0

//! A value is in memory of its pool, so it must not outlive that.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Kmalloc,
        Mempool,
        PoolBox, //
    }, //
};

fn drops_pool(
    pool: Pin<KBox<Mempool<Kmalloc<u64>>>>,
    uses: fn(PoolBox<&Mempool<Kmalloc<u64>>>),
) -> Result {
    let value = pool.alloc(Gfp::NOIO)?.write(1);
    drop(pool);
    uses(value);
    Ok(())
}
