// SPDX-License-Identifier: GPL-2.0

//! What a walk shows may be freed when the list is unlocked, and nobody may write to it.

use core::mem;

use kscale::mm::list_lru::{
    Item,
    ListLru,
    Status, //
};

fn keeps(lru: &ListLru<u64>) -> Option<&u64> {
    let mut kept = None;
    drop(lru.walk(1, |value| {
        kept = Some(value);
        Status::Skip
    }));
    kept
}

fn writes(item: &mut Item<u64>) {
    **item = 1;
}

fn takes(item: Item<u64>) -> u64 {
    mem::take(&mut *item)
}
