// SPDX-License-Identifier: GPL-2.0

//! A pool must not be resized while somebody else may use it.

use kernel::prelude::*;

use kscale::{
    gfp::Gfp,
    mempool::{
        Element,
        Mempool,
        PageAllocator, //
    }, //
};

fn resizes(
    mut pool: Pin<KBox<Mempool<PageAllocator>>>,
    uses: fn(Element<'_, PageAllocator>),
) -> Result {
    let element = pool.alloc(Gfp::NOIO)?;
    pool.as_mut().resize(1)?;
    uses(element);
    Ok(())
}
