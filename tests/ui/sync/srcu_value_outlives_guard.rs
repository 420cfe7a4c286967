// SPDX-License-Identifier: GPL-2.0

//! A value may be freed once the guard is dropped.

use kscale::sync::srcu::{
    Domain,
    Normal,
    Pointer, //
};

fn keeps(domain: &Domain<Normal>, pointer: &Pointer<u32, Normal>, uses: fn(Option<&u32>)) {
    let guard = domain.read_lock();
    let value = pointer.load(&guard).ok();
    drop(guard);
    uses(value);
}
