// SPDX-License-Identifier: GPL-2.0

//! Lists may be leaked, and items outlive them.

use kscale::mm::{
    gfp::Gfp,
    list_lru::ListLru, //
};

fn borrows(lru: &ListLru<&'static u64>, number: &u64) -> bool {
    lru.alloc(number, Gfp::KERNEL).is_ok()
}
