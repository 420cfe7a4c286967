// SPDX-License-Identifier: GPL-2.0

//! The bytes of a page must not be borrowed any longer once it went back to the pool.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    mempool::{
        Mempool,
        Pages, //
    }, //
};

fn uses(pool: &Mempool<Pages>, uses: fn(&[u8])) -> Result {
    let mut element = pool.alloc(Gfp::NOIO)?;
    let bytes = element.fill(0).as_slice();
    drop(element);
    uses(bytes);
    Ok(())
}
