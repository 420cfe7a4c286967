// SPDX-License-Identifier: GPL-2.0

//! The same, as the mutant that [`crate::mutant()`] names has it.

use super::page;
use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
include!(concat!(env!("OUT_DIR"), "/slots_module.rs"));
