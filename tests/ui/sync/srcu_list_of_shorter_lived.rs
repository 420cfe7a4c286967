// SPDX-License-Identifier: GPL-2.0

//! A list of values that live forever cannot be used as one of values that do not.

use kernel::prelude::*;

use kscale::sync::srcu::{
    Item,
    List,
    Normal, //
};

fn outlive<'s>(list: &List<&'static u32, Normal>, short: Item<&'s u32>) {
    let list: &List<&'s u32, Normal> = list;
    let _stays = list.lock().push_back(short);
}
