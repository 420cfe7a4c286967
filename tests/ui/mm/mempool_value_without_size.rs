// SPDX-License-Identifier: GPL-2.0

//! Values without a size need no memory, and `kmalloc()` has none for them.

use kernel::prelude::*;

use kscale::mm::mempool::{
    Kmalloc,
    Mempool, //
};

pub fn creates() -> Result<Pin<KBox<Mempool<Kmalloc<()>>>>> {
    KBox::pin_init(Mempool::new(1, Kmalloc::new()), GFP_KERNEL)
}
