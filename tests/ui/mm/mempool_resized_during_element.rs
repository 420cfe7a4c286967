// SPDX-License-Identifier: GPL-2.0

//! A pool must not be resized while somebody else may use it.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        Pages, //
    }, //
};

fn resizes(mut pool: Pin<KBox<Mempool<Pages>>>, uses: fn(Element<&Mempool<Pages>>)) -> Result {
    let element = pool.alloc(Gfp::NOIO)?;
    pool.as_mut().resize(1)?;
    uses(element);
    Ok(())
}
