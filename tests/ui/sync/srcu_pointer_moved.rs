// SPDX-License-Identifier: GPL-2.0

//! The lock of the writers has an address.

use kernel::prelude::*;

use kscale::sync::srcu::{
    Normal,
    Pointer, //
};

fn moves(pointer: Pin<KBox<Pointer<u32, Normal>>>) -> Pointer<u32, Normal> {
    *pointer
}
