// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/sync/srcu/pointer/current.rs"]
mod current;
