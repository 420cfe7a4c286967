// SPDX-License-Identifier: GPL-2.0

//! Safe Rust for the Linux kernel's scalability primitives.

use kernel::prelude::*;

mod bindings;
pub mod gfp;
pub mod key;
pub mod mempool;
pub mod page;
pub mod percpu_counter;
pub mod workqueue;

module! {
    type: Kscale,
    name: "kscale",
    authors: ["The kscale authors"],
    description: "Safe Rust for the kernel's scalability primitives",
    license: "GPL",
}

struct Kscale;

impl kernel::Module for Kscale {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self)
    }
}
