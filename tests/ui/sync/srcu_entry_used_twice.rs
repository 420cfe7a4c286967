// SPDX-License-Identifier: GPL-2.0

//! An entry is the right to remove an item, once.

use kscale::sync::srcu::{
    Entry,
    List,
    Normal, //
};

fn removes_twice(list: &List<u32, Normal>, entry: Entry<u32>) {
    drop(list.lock().remove(entry));
    drop(list.lock().remove(entry));
}
