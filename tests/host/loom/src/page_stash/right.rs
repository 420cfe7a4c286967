// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use super::page;
use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/mm/page_stash/slots.rs"]
mod slots;
