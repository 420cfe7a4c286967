// SPDX-License-Identifier: GPL-2.0

//! The code under test, as the kernel compiles it.

#[path = "../../../rust/iommu/iova/magazine/array.rs"]
mod array;
#[path = "checks.rs"]
pub(crate) mod checks;
#[path = "../../../rust/iommu/iova/magazine/cpu_rcache.rs"]
mod cpu_rcache;
#[path = "../../../rust/iommu/iova/magazine/depot.rs"]
mod depot;
#[path = "../../../rust/iommu/iova/magazine/policy.rs"]
mod policy;
#[path = "../../../rust/iommu/iova/magazine/rcache.rs"]
mod rcache;
#[path = "storm.rs"]
pub(crate) mod storm;
#[path = "tree.rs"]
mod tree;

type MagazineBox = Box<array::Magazine>;
