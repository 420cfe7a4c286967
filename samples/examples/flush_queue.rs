// SPDX-License-Identifier: GPL-2.0

//! Has a device forget many addresses at once, before any of them is used again.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    Builder,
    WhenFull, //
};

/// Stands for the registers of an IOMMU.
struct Registers {
    flushes: Atomic<u32>,
}

#[vtable]
impl Iotlb for Registers {
    fn flush_all(&self) {
        self.flushes.add(1, Relaxed);
    }
}

pub(crate) fn example() -> Result {
    let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
    let flushes = Atomic::new(0);
    let registers = Arc::new(Registers { flushes }, GFP_KERNEL)?;
    // It goes into the state of the module.
    let queue = FlushQueue::new(Arc::new(domain, GFP_KERNEL)?, registers.clone())?;

    for _ in 0..1000 {
        let range = queue.space().alloc_fast(4, 0xf_ffff, WhenFull::Fail)?;
        // Here the device works on it. When it is done, the range is unmapped, and goes back later.
        if let Err(foreign) = queue.queue(range) {
            drop(foreign);
        }
    }

    let flushes = registers.flushes.load(Relaxed);
    pr_info!("{flushes} flushes for 1000 ranges\n");
    Ok(())
}
