// SPDX-License-Identifier: GPL-2.0

//! A value that is not [`Sync`] must not be shared.

use core::cell::Cell;

use kscale::mm::mempool::{
    Kmalloc,
    Mempool,
    PoolBox, //
};

fn assert_sync<T: Sync>(_: &T) {}

fn shares(cell: PoolBox<&Mempool<Kmalloc<Cell<u64>>>>) {
    assert_sync(&cell);
}
