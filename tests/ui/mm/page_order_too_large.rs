// SPDX-License-Identifier: GPL-2.0

//! The page allocator has no blocks that large.

use kernel::prelude::*;

use kscale::mm::{
    gfp::Gfp,
    page::Page, //
};

pub fn allocates() -> Result {
    Page::<64>::alloc(Gfp::KERNEL).map(drop)
}
