// SPDX-License-Identifier: GPL-2.0

//! Ranges of I/O virtual addresses: freed directly, and through a flush queue.

use kernel::{
    debugfs::ScopedDir,
    fmt,
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

use core::hint::black_box;

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb, //
    },
    magazine::{
        Cache,
        Policy, //
    },
    Alignment,
    Builder,
    CachedDomain,
    WhenFull, //
};

/// The size of a range.
const SIZE_PFNS: usize = 4;

/// Limit of the addresses.
const LIMIT_PFN: usize = 0xf_ffff;

/// Timeout of the flush queue: longer than a measurement, which fills the ring.
const TIMEOUT_MS: u32 = 60_000;

struct Flushes(Atomic<u64>);

#[vtable]
impl Iotlb for Flushes {
    #[inline(never)]
    fn flush_all(&self) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[repr(C)]
pub(crate) struct Bench {
    domain: Arc<CachedDomain>,
    queue: FlushQueue<CachedDomain, Flushes>,
    /// Its twin is the rcache of the kernel.
    magazines: Cache,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
        let domain = Arc::new(domain, GFP_KERNEL)?;
        let flushes = Arc::new(Flushes(Atomic::new(0)), GFP_KERNEL)?;

        let tree = Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?;

        Ok(Self {
            magazines: Cache::new(tree, Policy::Adaptive)?,
            queue: FlushQueue::with_timeout(domain.clone(), flushes, TIMEOUT_MS)?,
            domain,
        })
    }

    fn queue(&self) {
        let range = self.domain.alloc_fast(SIZE_PFNS, LIMIT_PFN, WhenFull::Fail);

        if let Ok(range) = range {
            black_box(self.queue.queue(range).is_ok());
        }
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"alloc_iova" => |b| drop(b.domain.alloc(SIZE_PFNS, LIMIT_PFN, Alignment::Size)),
        c"alloc_iova_fast" => |b| drop(b.domain.alloc_fast(SIZE_PFNS, LIMIT_PFN, WhenFull::Fail)),
        c"alloc_iova_magazine" => |b| drop(b.magazines.alloc(SIZE_PFNS, LIMIT_PFN, WhenFull::FlushRcaches)),
        c"queue_iova" => Bench::queue,
    }
}
