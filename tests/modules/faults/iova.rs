// SPDX-License-Identifier: GPL-2.0

//! Domains, their ranges, and flush queues.

use kernel::prelude::*;

#[kunit_tests(kscale_faults_iova)]
mod tests {
    use super::*;

    use kernel::{
        cpu,
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
            WhenFull, //
        },
        testing::fault::each_failure, //
    };

    const LIMIT_PFN: usize = 1023;

    /// As `IOVA_MAG_SIZE` in `drivers/iommu/iova.c`.
    const RANGES_PER_MAGAZINE: usize = 127;

    fn domain() -> Result<CachedDomain> {
        Ok(Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?)
    }

    #[test]
    fn builder() -> Result {
        let failures = each_failure(|| {
            let mut builder = Builder::new(PAGE_SIZE, 1)?;
            builder.reserve(1..=2)?;
            builder.reserve(5..=6)?;
            Ok(builder)
        })?;
        // The box, and two nodes.
        assert!(failures.refused_at_least(3));
        Ok(())
    }

    #[test]
    fn init_rcaches() -> Result {
        let failures = each_failure(|| {
            let domain = Builder::new(PAGE_SIZE, 1)?.build();
            domain.init_rcaches().or_else(|error| {
                // The domain is unchanged.
                drop(error.domain.alloc(1, LIMIT_PFN, Alignment::Any)?);
                Err(error.into())
            })
        })?;
        // The box, and the caches of six sizes.
        assert!(failures.refused_at_least(8));
        Ok(())
    }

    #[test]
    fn alloc() -> Result {
        let domain = domain()?;

        let node = each_failure(|| domain.alloc(1, LIMIT_PFN, Alignment::Any).map(drop))?;
        assert!(node.refused >= 1);
        // The range is freed.
        let all = domain.alloc(LIMIT_PFN, LIMIT_PFN, Alignment::Any)?;
        drop(all);

        // Larger than the cached sizes.
        let fast =
            |when_full| each_failure(|| domain.alloc_fast(40, LIMIT_PFN, when_full).map(drop));
        assert!(fast(WhenFull::Fail)?.refused >= 1);
        // The second attempt, after the caches are flushed, succeeds.
        assert_eq!(fast(WhenFull::FlushRcaches)?.refused, 0);
        Ok(())
    }

    /// A range is freed into the tree if there is no memory for a magazine.
    #[test]
    fn free() -> Result {
        // More than the two magazines of each CPU hold, so that another one is needed.
        let count = 2 * RANGES_PER_MAGAZINE * cpu::nr_cpu_ids() as usize + 1;
        let domain = domain()?;
        let mut ranges = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut fill_magazines = || {
            let taken = (0..count).try_for_each(|_| {
                let range = domain.alloc_fast(1, usize::MAX >> 16, WhenFull::Fail)?;
                Ok(ranges.push(range, GFP_KERNEL)?)
            });
            ranges.clear();
            taken
        };

        // From here on there are ranges in the magazines, and few are from the tree.
        fill_magazines()?;
        assert!(each_failure(fill_magazines)?.tolerated >= 1);
        Ok(())
    }

    struct Nothing;

    #[vtable]
    impl Iotlb for Nothing {
        fn flush_all(&self) {}
    }

    #[test]
    fn flush_queue() -> Result {
        let domain = Arc::new(domain()?, GFP_KERNEL)?;
        let nothing = Arc::new(Nothing, GFP_KERNEL)?;

        let failures = each_failure(|| FlushQueue::new(domain.clone(), nothing.clone()))?;
        // The box, and the rings.
        assert!(failures.refused_at_least(2));

        // Queueing needs no memory, and freeing succeeds without.
        let queue = FlushQueue::new(domain, nothing)?;
        let failures = each_failure(|| {
            for _ in 0..256 {
                let range = queue.space().alloc_fast(1, LIMIT_PFN, WhenFull::Fail);
                if let Ok(range) = range {
                    queue.queue(range).map_err(|_| EINVAL)?;
                }
            }
            Ok(())
        })?;
        assert_eq!(failures.refused, 0);
        assert!(failures.tolerated >= 1);
        Ok(())
    }
}
