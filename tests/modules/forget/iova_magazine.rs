// SPDX-License-Identifier: GPL-2.0

//! Magazine caches, and their ranges.

use kernel::prelude::*;

#[kunit_tests(kscale_forget_iova_magazine)]
mod tests {
    use super::*;

    use crate::{
        drop_in_order,
        orders, //
    };

    use kernel::{
        page::PAGE_SIZE,
        sync::Arc, //
    };

    use kscale::{
        iommu::iova::{
            flush_queue::{
                FlushQueue,
                Iotlb, //
            },
            magazine::{
                Cache,
                Policy,
                VirtualCache, //
            },
            Alignment,
            Builder,
            Domain,
            Range,
            WhenFull, //
        },
        testing::leak::forget, //
    };

    const LIMIT_PFN: usize = 1023;

    fn domain() -> Result<Arc<Domain>> {
        Ok(Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?)
    }

    fn cache(policy: Policy) -> Result<Arc<Cache>> {
        Ok(Arc::new(Cache::new(domain()?, policy)?, GFP_KERNEL)?)
    }

    /// Fills the depot with magazines, so that the work item trims it.
    fn fill(cache: &Cache) -> Result {
        let mut ranges = KVec::with_capacity(LIMIT_PFN, GFP_KERNEL)?;
        for _ in 0..LIMIT_PFN {
            ranges.push(
                cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?,
                GFP_KERNEL,
            )?;
        }
        Ok(())
    }

    /// Hotplug callbacks and the work item of leaked caches still run, until the library is
    /// unloaded.
    #[test]
    fn forgotten_caches_stay() -> Result {
        for policy in Policy::ALL {
            let cache = cache(policy)?;
            fill(&cache)?;
            forget(cache)?;
        }
        forget(VirtualCache::new(domain()?, Policy::Adaptive, 2)?)
    }

    #[test]
    fn forgotten_ranges_are_never_handed_out_again() -> Result {
        let domain = domain()?;
        let cache = Cache::new(domain.clone(), Policy::Adaptive)?;
        let forgotten = cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?;
        let pfn = forgotten.pfn();
        core::mem::forget(forgotten);
        drop(cache);

        // All page frames except those of the leaked range.
        let below = domain.alloc(pfn - 1, LIMIT_PFN, Alignment::Any)?;
        assert!(domain.alloc(1, LIMIT_PFN, Alignment::Any).is_err());
        drop(below);
        Ok(())
    }

    /// A leaked range with a reference keeps its cache.
    #[test]
    fn forgotten_ranges_keep_what_they_count_on() -> Result {
        forget(cache(Policy::Trimmed)?.alloc_arc(1, LIMIT_PFN, WhenFull::FlushRcaches)?)
    }

    /// Values that belong to one cache.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Part {
        Domain(Arc<Domain>),
        Cache(Arc<Cache>),
        Range(Range<Arc<Cache>>),
        Queue(FlushQueue<Cache, Nothing>),
    }

    struct Nothing;

    #[vtable]
    impl Iotlb for Nothing {
        fn flush_all(&self) {}
    }

    #[test]
    fn handles_may_be_dropped_in_any_order() -> Result {
        for number in 0..orders(4) {
            let domain = domain()?;
            let cache = Arc::new(Cache::new(domain.clone(), Policy::Adaptive)?, GFP_KERNEL)?;
            let queue = FlushQueue::new(cache.clone(), Arc::new(Nothing, GFP_KERNEL)?)?;
            assert!(queue
                .queue(cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?)
                .is_ok());

            let mut parts = KVec::with_capacity(4, GFP_KERNEL)?;
            parts.push(Part::Domain(domain), GFP_KERNEL)?;
            parts.push(
                Part::Range(cache.alloc_arc(2, LIMIT_PFN, WhenFull::FlushRcaches)?),
                GFP_KERNEL,
            )?;
            parts.push(Part::Queue(queue), GFP_KERNEL)?;
            parts.push(Part::Cache(cache), GFP_KERNEL)?;
            drop_in_order(parts, number);
        }
        Ok(())
    }
}
