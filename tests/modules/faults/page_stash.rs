// SPDX-License-Identifier: GPL-2.0

//! Page stashes, without the work item that fills them.

use kernel::prelude::*;

#[kunit_tests(kscale_faults_page_stash)]
mod tests {
    use super::*;

    use kernel::cpu::CpuId;

    use kscale::{
        mm::page_stash::{
            Options,
            PageStash, //
        },
        testing::fault::each_failure, //
    };

    fn cache() -> Result<PageStash> {
        let options = Options {
            pages_per_cpu: 2,
            backoff_ms: 0,
            ..Options::default()
        };
        PageStash::new(c"kscale_faults", options)
    }

    #[test]
    fn new() -> Result {
        let failures = each_failure(cache)?;
        // The shared part, the slots, the shrinker and its instance.
        assert!(failures.refused_at_least(4));
        Ok(())
    }

    #[test]
    fn fill() -> Result {
        let cache = cache()?;

        let failures = each_failure(|| {
            let before = (cache.stats(), cache.cached());
            let result = cache.fill();
            // Pages that were added before the failure stay.
            let filled = cache.stats().filled - before.0.filled;
            if cache.cached() as u64 != before.1 as u64 + filled {
                return Err(EINVAL);
            }
            if result.is_ok() {
                cache.drain();
            }
            result
        })?;

        // Each page of each CPU.
        assert!(failures.refused_at_least(2));
        let stats = cache.stats();
        assert_eq!(stats.filled, stats.freed + cache.cached() as u64);
        Ok(())
    }

    /// `get()` and `put()` need no memory.
    #[test]
    fn get_and_put() -> Result {
        let cache = cache()?;
        cache.fill()?;
        let cpu = CpuId::from_u32(0).ok_or(ENODEV)?;

        let failures = each_failure(|| {
            let page = cache.get_on(cpu).ok_or(EINVAL)?;
            cache.put_on(cpu, page).map_err(|_| EINVAL)
        })?;

        assert_eq!(failures.refused + failures.tolerated, 0);
        Ok(())
    }

    /// The work item exists already, so a task that finds no page allocates none.
    #[test]
    fn miss() -> Result {
        let failures = each_failure(|| {
            let cache = cache()?;
            drop(cache.get());
            Ok(cache)
        })?;

        assert!(failures.refused_at_least(4));
        Ok(())
    }
}
