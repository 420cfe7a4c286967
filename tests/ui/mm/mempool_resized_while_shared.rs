// SPDX-License-Identifier: GPL-2.0

//! A pool must not be resized while somebody else may use it.

use kernel::prelude::*;

use kscale::mm::mempool::{
    Mempool,
    Pages, //
};

fn resizes(pool: Pin<&Mempool<Pages>>) -> Result {
    Mempool::resize(pool, 1)
}
