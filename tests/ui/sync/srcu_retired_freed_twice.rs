// SPDX-License-Identifier: GPL-2.0

//! An item that was left to a callback is gone.

use kscale::sync::srcu::{
    Normal,
    Retired, //
};

fn frees_twice(retired: Retired<u32, Normal>) {
    retired.free_later();
    drop(retired.wait());
}
