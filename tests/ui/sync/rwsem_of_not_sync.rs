// SPDX-License-Identifier: GPL-2.0

//! Readers of several tasks see the same value, so it must be [`Sync`].

use core::cell::Cell;

use kscale::sync::rwsem::RwSemaphore;

fn shares<T: Sync>() {}

fn shares_cell() {
    shares::<RwSemaphore<Cell<u32>>>();
}
