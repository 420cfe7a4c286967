// SPDX-License-Identifier: GPL-2.0

//! An item is on the list that it was allocated for: there is no other to name.

use kscale::mm::list_lru::{
    Item,
    ListLru, //
};

fn adds(item: &Item<u64>, other: &ListLru<u64>) -> bool {
    other.add(item) || item.add(other)
}
