// SPDX-License-Identifier: GPL-2.0

//! That a handle always leads to the same value takes `unsafe` to say.

use kscale::{
    iommu::iova::Domain,
    sync::StableRef, //
};

struct Handle(Domain);

impl StableRef for Handle {
    type Target = Domain;

    fn get_ref(&self) -> &Domain {
        &self.0
    }
}
