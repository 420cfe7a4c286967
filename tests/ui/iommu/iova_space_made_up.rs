// SPDX-License-Identifier: GPL-2.0

//! What ranges go back to is for the library to say.

use kscale::iommu::iova::{
    Domain,
    Space, //
};

struct Nowhere;

fn frees<S: Space>(_: &S) {}

fn makes_up(domain: &Domain) {
    frees(domain);
    frees(&Nowhere);
}
