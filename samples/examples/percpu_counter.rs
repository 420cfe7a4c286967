// SPDX-License-Identifier: GPL-2.0

//! Counts bytes on many CPUs, and compares the count with a limit at low cost.

use kernel::prelude::*;

use core::cmp::Ordering;

use kscale::percpu::counter::PerCpuCounter;

const LIMIT_BYTES: i64 = 1 << 20;

pub(crate) fn example() -> Result {
    let used_bytes: Pin<KBox<PerCpuCounter>> =
        KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;

    // In any context, on any CPU.
    used_bytes.add(4096);

    // Reads all CPUs only if the count is near the limit.
    if used_bytes.compare(LIMIT_BYTES) == Ordering::Greater {
        return Err(ENOSPC);
    }
    pr_info!("{} bytes in use\n", used_bytes.sum());
    Ok(())
}
