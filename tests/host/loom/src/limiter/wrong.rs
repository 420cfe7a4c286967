// SPDX-License-Identifier: GPL-2.0

//! The code with the defect of the mutant that [`crate::mutant()`] returns.

use crate::{
    atomic,
    hint, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/percpu/limiter/pacing.rs"]
mod pacing;
include!(concat!(env!("OUT_DIR"), "/pool_module.rs"));
