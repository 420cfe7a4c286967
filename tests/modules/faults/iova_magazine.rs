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
        // Slots and a depot for each of six sizes, what holds them, and the registration.
        assert!(failures.refused_at_least(15));
        Ok(())
    }

    #[test]
    fn virtual_cache() -> Result {
        let domain = domain()?;

        let failures = each_failure(|| VirtualCache::new(domain.clone(), Policy::Scaled, 2))?;
        // Two slots, what holds one, and a depot for each of six sizes.
        assert!(failures.refused_at_least(25));
        Ok(())
    }

    /// A range goes back to the tree if there is no memory for a magazine, and the tree is asked
    /// twice.
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
            // Three nodes and two magazines, of which one may have been taken for another.
            assert!(failures.tolerated >= 4);
            assert_eq!(left, 0);
        }
        // All of it is there.
        drop(domain.alloc(LIMIT_PFN, LIMIT_PFN, Alignment::Any)?);
        Ok(())
    }
}
