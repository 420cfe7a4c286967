// SPDX-License-Identifier: GPL-2.0

//! A list frees its items when it is dropped.

use kernel::prelude::*;

use kscale::sync::srcu::{
    Guard,
    List,
    Normal, //
};

fn drops(list: Pin<KBox<List<u32, Normal>>>, guard: Guard<'_, Normal>, uses: fn(Option<&u32>)) {
    let walk = list.walk(&guard);
    drop(list);
    uses(walk.ok().and_then(|mut walk| walk.next()));
}
