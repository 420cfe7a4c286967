// SPDX-License-Identifier: GPL-2.0

//! Flushes an IOTLB for many ranges at once, before any of them is used again.

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
    // A module stores the queue in its state.
    let queue = FlushQueue::new(Arc::new(domain, GFP_KERNEL)?, registers.clone())?;

    for _ in 0..1000 {
        let range = queue.space().alloc_fast(4, 0xf_ffff, WhenFull::Fail)?;
        // The device does its I/O here. Then the range is unmapped and freed after a flush.
        if let Err(foreign) = queue.queue(range) {
            drop(foreign);
        }
    }

    // Flushes the ranges that are still queued, and frees them.
    queue.flush();
    let flushes = registers.flushes.load(Relaxed);
    pr_info!("{flushes} flushes for 1000 ranges\n");
    Ok(())
}
