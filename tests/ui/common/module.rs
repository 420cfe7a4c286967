// SPDX-License-Identifier: GPL-2.0

//! The module of the targets in the cases: `#[vtable]` needs one.

use kernel::prelude::*;

module! {
    type: Case,
    name: "case",
    authors: ["The kscale authors"],
    description: "Compile-fail case",
    license: "GPL",
}

pub struct Case;

impl kernel::Module for Case {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
