// SPDX-License-Identifier: GPL-2.0

//! A page must not leave the function that has the pool.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        Pages, //
    }, //
};

fn returns<'a>(pool: Pin<KBox<Mempool<Pages>>>) -> Result<Element<&'a Mempool<Pages>>> {
    pool.alloc(Gfp::NOIO)
}
