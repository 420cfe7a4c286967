// SPDX-License-Identifier: GPL-2.0

//! The code with the defect of the mutant that [`crate::mutant()`] returns.

use crate::{
    atomic,
    atomic::barrier, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
include!(concat!(env!("OUT_DIR"), "/counters_module.rs"));
