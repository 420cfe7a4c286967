// SPDX-License-Identifier: GPL-2.0

//! An item that was removed may be freed once the guard is dropped.

use kscale::sync::srcu::{
    List,
    Normal, //
};

fn keeps(list: &List<u32, Normal>, uses: fn(Option<&u32>)) {
    let guard = list.read();
    let first = guard.walk().next();
    drop(guard);
    uses(first);
}
