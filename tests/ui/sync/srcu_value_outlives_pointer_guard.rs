// SPDX-License-Identifier: GPL-2.0

//! A value may be freed once the guard that came with it is dropped.

use kscale::sync::srcu::{
    Normal,
    Pointer, //
};

fn keeps(pointer: &Pointer<u32, Normal>, uses: fn(&u32)) {
    let guard = pointer.read();
    let value = &*guard;
    drop(guard);
    uses(value);
}
