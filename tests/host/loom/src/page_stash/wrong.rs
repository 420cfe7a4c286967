// SPDX-License-Identifier: GPL-2.0

//! The code with the defect of the mutant that [`crate::mutant()`] returns.

use super::page;
use crate::atomic;

#[path = "checks.rs"]
pub(crate) mod checks;
include!(concat!(env!("OUT_DIR"), "/slots_module.rs"));
