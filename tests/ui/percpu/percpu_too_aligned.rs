// SPDX-License-Identifier: GPL-2.0

//! Values are aligned to a page at most, which C would only warn of when the code runs.

use kernel::prelude::*;

use kscale::percpu::PerCpu;

#[repr(align(8192))]
pub struct Aligned([u8; 8192]);

pub fn aligned() -> Result<PerCpu<Aligned>> {
    PerCpu::new(|_| Ok(Aligned([0; 8192])))
}
