// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/block/dm/submit/llist.rs"]
mod llist;
