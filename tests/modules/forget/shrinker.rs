// SPDX-License-Identifier: GPL-2.0

//! Shrinkers, and their lists of objects.

use kernel::prelude::*;

#[kunit_tests(kscale_forget_shrinker)]
mod tests {
    use super::*;

    use core::mem;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    use kscale::{
        mm::{
            gfp::Gfp,
            list_lru::{
                Isolated,
                Item,
                ListLru,
                Status, //
            },
            shrinker::{
                Callbacks,
                Count,
                Flags,
                Registration,
                Scan,
                ScanControl,
                ShrinkControl,
                Shrinker, //
            }, //
        },
        testing::leak::forget, //
    };

    use crate::{
        drop_in_order,
        in_every_order, //
    };

    /// Counts its drops, by code of this module.
    struct Counted(Arc<Atomic<usize>>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A cache that reports no objects.
    struct Cache(ListLru<Counted>);

    #[vtable]
    impl Callbacks for Cache {
        fn count_objects(&self, control: &ShrinkControl) -> Count {
            Count::new(self.0.shrink_count(control))
        }

        fn scan_objects(&self, control: &ScanControl) -> Scan {
            Scan::freed(self.0.shrink_walk(control, |_| Status::Isolate).len())
        }
    }

    fn shrinker() -> Result<Shrinker> {
        Shrinker::new(c"kscale_forget", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)
    }

    fn drops() -> Result<Arc<Atomic<usize>>> {
        Ok(Arc::new(Atomic::new(0), GFP_KERNEL)?)
    }

    /// Creates lists with one item.
    fn lists(
        shrinker: &Shrinker,
        drops: &Arc<Atomic<usize>>,
    ) -> Result<(ListLru<Counted>, Item<Counted>)> {
        let lru = ListLru::new(c"kscale_forget", shrinker)?;
        let item = lru.alloc(Counted(drops.clone()), Gfp::KERNEL)?;
        item.add();
        Ok((lru, item))
    }

    /// The registration ends when this module is unloaded, and drops its cache.
    #[test]
    fn forgotten_callbacks_are_called_until_their_module_goes() -> Result {
        let shrinker = shrinker()?;
        let (lru, _item) = lists(&shrinker, &drops()?)?;
        mem::forget(shrinker.register(Arc::new(Cache(lru), GFP_KERNEL)?)?);
        Ok(())
    }

    #[test]
    fn forgotten_shrinkers_are_called_by_nobody() -> Result {
        let shrinker = shrinker()?;
        drop(lists(&shrinker, &drops()?)?);
        forget(shrinker)
    }

    #[test]
    fn forgotten_items_are_never_dropped() -> Result {
        let (shrinker, drops) = (shrinker()?, drops()?);

        // On a list that is dropped.
        let (lru, item) = lists(&shrinker, &drops)?;
        forget(item)?;
        drop(lru);
        // On a list that is leaked.
        let (lru, item) = lists(&shrinker, &drops)?;
        drop(item);
        forget(lru)?;
        // Isolated by a walk.
        let (lru, item) = lists(&shrinker, &drops)?;
        mem::forget(lru.walk(1, |_| Status::Isolate));
        assert!(item.add());
        drop(lru);
        forget(item)?;

        assert_eq!(drops.load(Relaxed), 0);
        Ok(())
    }

    /// Values that belong to one cache.
    #[expect(dead_code, reason = "they are only dropped")]
    enum Part {
        Registration(Registration<Cache>),
        Cache(Arc<Cache>),
        Item(Item<Counted>),
        Isolated(Isolated<Counted>),
    }

    #[test]
    fn handles_may_be_dropped_in_any_order() -> Result {
        in_every_order(4, |number| {
            let (shrinker, drops) = (shrinker()?, drops()?);
            let (lru, item) = lists(&shrinker, &drops)?;
            let isolated = lru.walk(1, |_| Status::Isolate);
            lru.alloc(Counted(drops.clone()), Gfp::KERNEL)?.add();
            let cache = Arc::new(Cache(lru), GFP_KERNEL)?;
            let registration = shrinker.register(cache.clone())?;

            let mut parts = KVec::with_capacity(4, GFP_KERNEL)?;
            parts.push(Part::Registration(registration), GFP_KERNEL)?;
            parts.push(Part::Cache(cache), GFP_KERNEL)?;
            parts.push(Part::Item(item), GFP_KERNEL)?;
            parts.push(Part::Isolated(isolated), GFP_KERNEL)?;
            drop_in_order(parts, number);

            match drops.load(Relaxed) {
                2 => Ok(()),
                _ => Err(ENODATA),
            }
        })
    }
}
