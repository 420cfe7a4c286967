// SPDX-License-Identifier: GPL-2.0

//! A domain, ranges of it, and a queue for them, each used by its owner.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::iommu::iova::{
    flush_queue::{
        FlushQueue,
        Iotlb,
        Ring, //
    },
    Alignment,
    Builder,
    CachedDomain,
    Domain,
    Range,
    WhenFull, //
};

use module::Case as LocalModule;

#[path = "../common/module.rs"]
mod module;

/// Makes a domain, step by step.
pub fn domain() -> Result<CachedDomain> {
    let mut builder = Builder::new(4096, 1)?;
    builder.reserve(1..=2)?;
    let domain: Domain = builder.build();
    drop(domain.alloc(1, 100, Alignment::Any)?);
    Ok(domain.init_rcaches()?)
}

/// Takes ranges, and gives them back in the reverse order.
pub fn ranges<'a>(domain: &'a CachedDomain, kept: &Arc<CachedDomain>) -> Result<Range<&'a Domain>> {
    let counting: Range<Arc<CachedDomain>> = kept.alloc_fast_arc(1, 100, WhenFull::Fail)?;
    let fast: Range<&CachedDomain> = domain.alloc_fast(1, 100, WhenFull::Fail)?;
    drop(fast);
    drop(counting);
    domain.alloc(1, 100, Alignment::Any)
}

struct Nothing;

#[vtable]
impl Iotlb for Nothing {
    fn flush_all(&self) {}
}

/// Queues a range.
pub fn queue(domain: Arc<CachedDomain>) -> Result {
    let queue = FlushQueue::new(domain, Arc::new(Nothing, GFP_KERNEL)?)?;
    let range = queue.space().alloc_fast(1, 100, WhenFull::Fail)?;
    queue.queue(range).map_err(|_| EINVAL)
}

/// Makes a small ring.
pub fn ring() -> Result<KBox<Ring<u8, 128>>> {
    KBox::init(Ring::new(), GFP_KERNEL)
}
