// SPDX-License-Identifier: GPL-2.0

//! A page goes back to the pool that it is from, so it must not outlive that.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        Pages, //
    }, //
};

fn drops_pool(pool: Pin<KBox<Mempool<Pages>>>, uses: fn(Result<Element<&Mempool<Pages>>>)) {
    let element = pool.alloc(Gfp::NOIO);
    drop(pool);
    uses(element);
}
