// SPDX-License-Identifier: GPL-2.0

//! The code with the defect of the mutant that [`crate::mutant()`] returns.

use crate::{
    atomic,
    atomic::barrier, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/iommu/iova/flush_queue/counters.rs"]
mod counters;
include!(concat!(env!("OUT_DIR"), "/armed_module.rs"));
