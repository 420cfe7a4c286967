// SPDX-License-Identifier: GPL-2.0

//! The same, as the mutant that [`crate::mutant()`] names has it.

use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
include!(concat!(env!("OUT_DIR"), "/counts_module.rs"));
