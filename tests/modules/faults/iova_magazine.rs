// SPDX-License-Identifier: GPL-2.0

//! Magazine caches.

use kernel::prelude::*;

#[kunit_tests(kscale_faults_iova_magazine)]
mod tests {
    use super::*;

    use kernel::{
        page::PAGE_SIZE,
        sync::Arc, //
    };

    use kscale::{
        iommu::iova::{
            magazine::{
                Cache,
                Policy,
                VirtualCache, //
            },
            Alignment,
            Builder,
            Domain,
            WhenFull, //
        },
        testing::fault::each_failure, //
    };

    const LIMIT_PFN: usize = 1023;

    fn domain() -> Result<Arc<Domain>> {
        Ok(Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?)
    }

    #[test]
    fn cache() -> Result {
        let domain = domain()?;

        let failures = each_failure(|| Cache::new(domain.clone(), Policy::Adaptive))?;
        // Slots and a depot for each of six sizes, their containers, and the registration.
        assert!(failures.refused_at_least(15));
        Ok(())
    }

    #[test]
    fn virtual_cache() -> Result {
        let domain = domain()?;

        let failures = each_failure(|| VirtualCache::new(domain.clone(), Policy::Scaled, 2))?;
        // For each of six sizes: two slots, their container, and a depot.
        assert!(failures.refused_at_least(25));
        Ok(())
    }

    /// A range is freed into the tree if there is no memory for a magazine, and an allocation from
    /// the tree is retried.
    #[test]
    fn ranges() -> Result {
        let domain = domain()?;

        for policy in Policy::ALL {
            let mut left = 0;
            let failures = each_failure(|| {
                let cache = VirtualCache::new(domain.clone(), policy, 1)?;
                for size_pfns in [1, 32, 40] {
                    drop(cache.alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?);
                }
                left += cache.usage().ranges - cache.usage().cached;
                Ok(())
            })?;
            // Three nodes and two magazines. One failure may have hit an allocator's own
            // allocation.
            assert!(failures.tolerated >= 4);
            assert_eq!(left, 0);
        }
        // All page frames are free.
        drop(domain.alloc(LIMIT_PFN, LIMIT_PFN, Alignment::Any)?);
        Ok(())
    }
}
