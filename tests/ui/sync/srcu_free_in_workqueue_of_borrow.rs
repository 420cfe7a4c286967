// SPDX-License-Identifier: GPL-2.0

//! A work item runs at any time, when what the value borrows may be gone.

use kscale::sync::srcu::{
    Normal,
    Retired, //
};

fn frees(retired: Retired<&u32, Normal>) {
    retired.free_in_workqueue();
}
