// SPDX-License-Identifier: GPL-2.0

//! A pointer to a value that lives forever cannot be used as one to a value that does not.

use kernel::prelude::*;

use kscale::sync::srcu::{
    Item,
    Normal,
    Pointer, //
};

fn outlive<'s>(pointer: &Pointer<&'static u32, Normal>, short: Item<&'s u32>) {
    let pointer: &Pointer<&'s u32, Normal> = pointer;
    drop(pointer.lock().replace(short));
}
