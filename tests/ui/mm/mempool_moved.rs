// SPDX-License-Identifier: GPL-2.0

//! C has the address of a pool, so it must not move.

use kernel::prelude::*;

use kscale::mm::mempool::{
    Mempool,
    Pages, //
};

fn moves(pool: Pin<KBox<Mempool<Pages>>>) -> Mempool<Pages> {
    *Pin::into_inner(pool)
}
