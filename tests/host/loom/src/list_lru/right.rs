// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::{
    atomic,
    atomic::barrier, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/mm/list_lru/closed.rs"]
mod closed;
