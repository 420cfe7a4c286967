// SPDX-License-Identifier: GPL-2.0

//! A pointer frees its value when it is dropped, whatever guards there are.

use kernel::prelude::*;

use kscale::sync::srcu::{
    Guard,
    Normal,
    Pointer, //
};

fn keeps(
    pointer: Pin<KBox<Pointer<u32, Normal>>>,
    guard: Guard<'_, Normal>,
    uses: fn(Option<&u32>),
) {
    let value = pointer.load(&guard).ok();
    drop(pointer);
    uses(value);
}
