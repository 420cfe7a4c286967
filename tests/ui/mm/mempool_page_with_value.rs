// SPDX-License-Identifier: GPL-2.0

//! Pages are bytes: no value can be put into them.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Mempool,
        Pages, //
    }, //
};

fn writes(pool: &Mempool<Pages>) -> Result {
    pool.alloc(Gfp::NOIO)?.write(1);
    Ok(())
}
