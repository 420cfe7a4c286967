// SPDX-License-Identifier: GPL-2.0

//! The rings of flush queues.

use crate::{
    atomic,
    atomic::barrier, //
};

#[path = "../../../../rust/iommu/iova/flush_queue/counters.rs"]
mod counters;
#[path = "../../../../rust/iommu/iova/flush_queue/ring.rs"]
mod ring;
