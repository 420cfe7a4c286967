// SPDX-License-Identifier: GPL-2.0

//! A guard of another flavor is one of another domain.

use kscale::sync::srcu::{
    Domain,
    Fast,
    Normal,
    Pointer, //
};

fn loads(pointer: &Pointer<u32, Normal>, other: &Domain<Fast>) {
    let _ = pointer.load(&other.read_lock());
}
