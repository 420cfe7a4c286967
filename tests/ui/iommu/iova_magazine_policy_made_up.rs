// SPDX-License-Identifier: GPL-2.0

//! Policies are the library's own: those of a module could outlive it with a cache that is leaked.

use kscale::iommu::iova::magazine::policy::DepotPolicy;

struct Mine;

impl DepotPolicy for Mine {}
