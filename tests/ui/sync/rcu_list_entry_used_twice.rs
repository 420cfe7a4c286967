// SPDX-License-Identifier: GPL-2.0

//! An entry is the right to remove a value, once.

use kscale::sync::rcu_list::{
    Entry,
    List, //
};

fn removes_twice(list: &List<u32>, entry: Entry<u32>) {
    drop(list.remove(entry));
    drop(list.remove(entry));
}
