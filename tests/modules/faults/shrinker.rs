// SPDX-License-Identifier: GPL-2.0

//! Shrinkers, and their lists of objects.

use kernel::prelude::*;

#[kunit_tests(kscale_faults_shrinker)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use kscale::{
        mm::{
            gfp::Gfp,
            list_lru::ListLru,
            shrinker::{
                Callbacks,
                Count,
                Flags,
                Scan,
                ScanControl,
                ShrinkControl,
                Shrinker, //
            }, //
        },
        testing::fault::{
            each_failure,
            each_failure_once, //
        }, //
    };

    /// A cache without objects.
    struct Nothing;

    #[vtable]
    impl Callbacks for Nothing {
        fn count_objects(&self, _: &ShrinkControl) -> Count {
            Count::EMPTY
        }

        fn scan_objects(&self, _: &ScanControl) -> Scan {
            Scan::STOP
        }
    }

    #[test]
    fn shrinker() -> Result {
        // Also the deferred counts, and the name for debugfs.
        let plain = each_failure(|| Shrinker::new(c"kscale_faults", Flags::NONE))?;
        assert!(plain.refused_at_least(2));
        let aware = Flags::NUMA_AWARE | Flags::MEMCG_AWARE;
        assert!(each_failure(|| Shrinker::new(c"kscale_faults", aware))?.refused_at_least(2));
        Ok(())
    }

    #[test]
    fn registration() -> Result {
        let nothing = Arc::new(Nothing, GFP_KERNEL)?;

        let failures = each_failure(|| {
            Shrinker::new(c"kscale_faults", Flags::NONE)?.register(nothing.clone())
        })?;
        // Also the instance.
        assert!(failures.refused_at_least(3));
        // Allocations of debugfs.
        assert!(failures.tolerated >= 1);
        // A failed registration drops its callbacks.
        assert!(Arc::into_unique_or_drop(nothing).is_some());
        Ok(())
    }

    #[test]
    fn lists() -> Result {
        let aware = Flags::NUMA_AWARE | Flags::MEMCG_AWARE;
        let shrinker = Shrinker::new(c"kscale_faults", aware)?;

        // The shared part of all items, the lists, and a cache with its name and counts.
        let failures = each_failure_once(|| ListLru::<[u64; 9]>::new(c"kscale_faults", &shrinker))?;
        assert!(failures.refused_at_least(5));
        Ok(())
    }

    #[test]
    fn items() -> Result {
        let shrinker = Shrinker::new(c"kscale_faults", Flags::NUMA_AWARE)?;
        let lru = ListLru::<u64>::new(c"kscale_faults", &shrinker)?;

        let failures = each_failure(|| Ok(lru.alloc(1, Gfp::KERNEL)?))?;
        assert!(failures.refused >= 1);
        // The value is returned. Adding it to a list needs no memory.
        let value = each_failure(|| match lru.alloc(7, Gfp::KERNEL) {
            Ok(item) => Ok((*item, item.add())),
            Err(error) => Ok((error.value, true)),
        })?;
        assert_eq!(value.refused, 0);
        Ok(())
    }
}
