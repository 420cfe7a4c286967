// SPDX-License-Identifier: GPL-2.0

//! Others read the same value at the same time.

use kscale::sync::srcu::{
    Normal,
    Pointer, //
};

fn writes(pointer: &Pointer<u32, Normal>) {
    *pointer.read() = 1;
}
