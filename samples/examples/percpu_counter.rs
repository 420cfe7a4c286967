// SPDX-License-Identifier: GPL-2.0

//! Counts bytes on many CPUs, and asks cheaply whether there are too many.

use kernel::prelude::*;

use core::cmp::Ordering;

use kscale::percpu::counter::PerCpuCounter;

const LIMIT_BYTES: i64 = 1 << 20;

pub(crate) fn example() -> Result {
    let used_bytes: Pin<KBox<PerCpuCounter>> =
        KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;

    // From any context, on any CPU.
    used_bytes.add(4096);

    // Exact if it has to be, cheap as long as the count is far from the limit.
    if used_bytes.compare(LIMIT_BYTES) == Ordering::Greater {
        return Err(ENOSPC);
    }
    pr_info!("{} bytes in use\n", used_bytes.sum());
    Ok(())
}
