// SPDX-License-Identifier: GPL-2.0

//! Values have a largest size, which C would only warn of when the code runs.

use kernel::prelude::*;

use kscale::percpu::PerCpu;

pub fn large() -> Result<PerCpu<[u8; PerCpu::<u8>::MAX_SIZE_BYTES + 1]>> {
    PerCpu::zeroed()
}
