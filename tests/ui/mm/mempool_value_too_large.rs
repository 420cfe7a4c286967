// SPDX-License-Identifier: GPL-2.0

//! `kmalloc()` has no memory that large.

use kernel::prelude::*;

use kscale::mm::mempool::{
    Kmalloc,
    Mempool, //
};

type Huge = [u8; (4 << 20) + 1];

pub fn creates() -> Result<Pin<KBox<Mempool<Kmalloc<Huge>>>>> {
    KBox::pin_init(Mempool::new(1, Kmalloc::new()), GFP_KERNEL)
}
