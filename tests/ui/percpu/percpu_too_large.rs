// SPDX-License-Identifier: GPL-2.0

//! Values have a largest size, which C would only warn of when the code runs.

use kernel::prelude::*;

use kscale::percpu::PerCpu;

const SIZE_BYTES: usize = PerCpu::<u8>::MAX_SIZE_BYTES + 1;

pub fn large() -> Result<PerCpu<[u8; SIZE_BYTES]>> {
    PerCpu::new(|_| Ok([0; SIZE_BYTES]))
}
