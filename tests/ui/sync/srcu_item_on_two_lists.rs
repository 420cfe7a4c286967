// SPDX-License-Identifier: GPL-2.0

//! An item can be on one list at a time.

use kscale::sync::srcu::{
    Item,
    List,
    Normal, //
};

fn inserts_twice(one: &List<u32, Normal>, other: &List<u32, Normal>, item: Item<u32>) {
    drop(one.lock().push_back(item));
    drop(other.lock().push_back(item));
}
