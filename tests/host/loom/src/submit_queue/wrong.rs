// SPDX-License-Identifier: GPL-2.0

//! The code with the defect of the mutant that [`crate::mutant()`] returns.

use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
include!(concat!(env!("OUT_DIR"), "/llist_module.rs"));
