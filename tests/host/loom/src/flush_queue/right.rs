// SPDX-License-Identifier: GPL-2.0

//! The code as the kernel compiles it.

use crate::{
    atomic,
    atomic::barrier, //
};

#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../../../rust/iommu/iova/flush_queue/counters.rs"]
mod counters;
