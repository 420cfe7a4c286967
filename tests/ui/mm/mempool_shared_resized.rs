// SPDX-License-Identifier: GPL-2.0

//! A pool that elements count on has other users, so it must not be resized.

use kernel::sync::Arc;

use kscale::mm::mempool::{
    Mempool,
    Pages, //
};

fn resizes(mut pool: Arc<Mempool<Pages>>, resize: fn(&mut Mempool<Pages>)) {
    resize(&mut pool);
}
