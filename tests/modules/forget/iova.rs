// SPDX-License-Identifier: GPL-2.0

//! Domains, their ranges, and flush queues.

use kernel::prelude::*;

#[kunit_tests(kscale_forget_iova)]
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
            Alignment,
            Builder,
            CachedDomain,
            Domain,
            Range,
            WhenFull, //
        },
        testing::leak::forget, //
    };

    const LIMIT_PFN: usize = 1023;

    fn domain() -> Result<Arc<CachedDomain>> {
        let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
        Ok(Arc::new(domain, GFP_KERNEL)?)
    }

    fn alloc(domain: &CachedDomain) -> Result<Range<&CachedDomain>> {
        domain.alloc_fast(1, LIMIT_PFN, WhenFull::Fail)
    }

    /// The kernel has a list of the domains with caches, which it walks when a CPU goes offline.
    #[test]
    fn forgotten_domains_stay() -> Result {
        let mut builder = Builder::new(PAGE_SIZE, 1)?;
        builder.reserve(1..=9)?;
        forget(builder)?;
        forget(Builder::new(PAGE_SIZE, 1)?.build())?;

        let domain = domain()?;
        drop(alloc(&domain)?);
        let range = alloc(&domain)?;
        core::mem::forget(range);
        forget(domain)
    }

    /// The domain of each kind is dropped, and its leaked range with it.
    #[test]
    fn forgotten_ranges_are_never_handed_out_again() -> Result {
        let domain = domain()?;
        core::mem::forget(domain.alloc(LIMIT_PFN - 1, LIMIT_PFN, Alignment::Any)?);

        let last = alloc(&domain)?;
        assert_eq!(last.pfn(), 1);
        core::mem::forget(last);
        assert!(alloc(&domain).is_err());
        drop(domain);
        Ok(())
    }

    /// A leaked range with a reference keeps its domain.
    #[test]
    fn forgotten_ranges_keep_what_they_count_on() -> Result {
        let domain = domain()?;
        forget(domain.alloc_fast_arc(1, LIMIT_PFN, WhenFull::Fail)?)
    }

    /// Values that belong to one domain.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Part {
        Domain(Arc<CachedDomain>),
        Range(Range<Arc<CachedDomain>>),
        Queue(FlushQueue<CachedDomain, Nothing>),
    }

    struct Nothing;

    #[vtable]
    impl Iotlb for Nothing {
        fn flush_all(&self) {}
    }

    fn queue(domain: Arc<CachedDomain>) -> Result<FlushQueue<CachedDomain, Nothing>> {
        FlushQueue::new(domain, Arc::new(Nothing, GFP_KERNEL)?)
    }

    #[test]
    fn handles_may_be_dropped_in_any_order() -> Result {
        for number in 0..orders(4) {
            let domain = domain()?;
            let queue = queue(domain.clone())?;
            assert!(queue.queue(alloc(&domain)?).is_ok());

            let mut parts = KVec::with_capacity(4, GFP_KERNEL)?;
            for size_pfns in [1, 40] {
                let range = domain.alloc_fast_arc(size_pfns, LIMIT_PFN, WhenFull::Fail)?;
                parts.push(Part::Range(range), GFP_KERNEL)?;
            }
            parts.push(Part::Domain(domain), GFP_KERNEL)?;
            parts.push(Part::Queue(queue), GFP_KERNEL)?;
            drop_in_order(parts, number);
        }
        Ok(())
    }

    #[test]
    fn ranges_may_be_dropped_in_any_order() -> Result {
        let domain = Builder::new(PAGE_SIZE, 1)?.build();

        for number in 0..orders(4) {
            let mut ranges: KVec<Range<&Domain>> = KVec::with_capacity(4, GFP_KERNEL)?;
            for size_pfns in [1, 2, 3, 1017] {
                let range = domain.alloc(size_pfns, LIMIT_PFN, Alignment::Any)?;
                ranges.push(range, GFP_KERNEL)?;
            }
            assert!(domain.alloc(1, LIMIT_PFN, Alignment::Any).is_err());
            drop_in_order(ranges, number);
        }
        Ok(())
    }

    /// The timer still runs, by code of this module, until the module is unloaded.
    #[test]
    fn forgotten_queues_free_their_ranges() -> Result {
        for count in [0, 1, 300] {
            let queue = queue(domain()?)?;
            for _ in 0..count {
                assert!(queue.queue(alloc(queue.space())?).is_ok());
            }
            forget(queue)?;
        }
        Ok(())
    }
}
