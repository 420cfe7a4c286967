// SPDX-License-Identifier: GPL-2.0

//! Readers of several tasks see the same value, so it must be [`Sync`].

use core::cell::Cell;

use kscale::sync::srcu::{
    Fast,
    Pointer, //
};

fn shares<T: Sync>() {}

fn shares_cell() {
    shares::<Pointer<Cell<u32>, Fast>>();
}
