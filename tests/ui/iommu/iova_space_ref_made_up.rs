// SPDX-License-Identifier: GPL-2.0

//! That a handle always leads to the same domain takes `unsafe` to say.

use kscale::iommu::iova::{
    Domain,
    SpaceRef, //
};

struct Handle(Domain);

impl SpaceRef for Handle {
    type Space = Domain;

    fn space(&self) -> &Domain {
        &self.0
    }
}
