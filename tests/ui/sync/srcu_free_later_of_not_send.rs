// SPDX-License-Identifier: GPL-2.0

//! A callback runs in another task.

use kscale::sync::srcu::{
    Normal,
    Retired, //
};

use kernel::types::NotThreadSafe;

fn frees(retired: Retired<NotThreadSafe, Normal>) {
    retired.free_later();
}
