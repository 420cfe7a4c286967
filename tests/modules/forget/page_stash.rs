// SPDX-License-Identifier: GPL-2.0

//! Page stashes, and their pages.

use kernel::prelude::*;

#[kunit_tests(kscale_forget_page_stash)]
mod tests {
    use super::*;

    use crate::{
        drop_in_order,
        orders, //
    };

    use kernel::cpu::CpuId;

    use kscale::{
        mm::{
            gfp::Gfp,
            page::Page,
            page_stash::{
                Options,
                PageStash, //
            }, //
        },
        testing::leak::forget, //
    };

    fn cache() -> Result<PageStash> {
        let options = Options {
            pages_per_cpu: 2,
            backoff_ms: 0,
            ..Options::default()
        };
        let cache = PageStash::new(c"kscale_forget", options)?;
        cache.fill()?;
        Ok(cache)
    }

    /// The shrinker and the work item belong to the library, and still run.
    #[test]
    fn a_forgotten_cache_may_be_filled_and_shrunk() -> Result {
        let cache = cache()?;
        cache.drain();
        // Queues the work item that fills the stash.
        drop(cache.get());
        forget(cache)
    }

    #[test]
    fn forgotten_pages_are_missing_only() -> Result {
        let cpu = CpuId::from_u32(0).ok_or(ENODEV)?;
        let cache = cache()?;
        let cached = cache.cached();

        forget(cache.get_on(cpu))?;

        assert_eq!(cache.cached(), cached - 1);
        assert_eq!(cache.drain(), cached - 1);
        Ok(())
    }

    /// Values that belong to one cache.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Part {
        Cache(PageStash),
        Cached(Option<Page>),
        Own(Page),
    }

    /// A page does not depend on the stash that it came from.
    #[test]
    fn pages_may_outlive_their_cache() -> Result {
        for number in 0..orders(3) {
            let cache = cache()?;
            let mut parts = KVec::with_capacity(3, GFP_KERNEL)?;
            parts.push(Part::Cached(cache.get()), GFP_KERNEL)?;
            parts.push(Part::Own(Page::alloc(Gfp::KERNEL)?), GFP_KERNEL)?;
            parts.push(Part::Cache(cache), GFP_KERNEL)?;
            drop_in_order(parts, number);
        }
        Ok(())
    }
}
