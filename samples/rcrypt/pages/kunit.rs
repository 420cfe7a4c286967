// SPDX-License-Identifier: GPL-2.0

//! Tests of the page limits and of the sources of pages.

use kernel::prelude::*;

#[kunit_tests(rcrypt_pages)]
mod tests {
    use super::super::*;

    use kernel::cpu;

    use kscale::block::dm::CompoundSource;

    /// Returns an allocator for the only target of a module.
    fn pages_of(limit: LimitMode, page: PageMode) -> Result<LimitedPages> {
        LimitedPages::new(Shared::new()?, Modes { limit, page })
    }

    const MODES: [LimitMode; 3] = [LimitMode::Exact, LimitMode::Approx, LimitMode::Credit];

    /// The flags with which the pool asks for optional pages.
    const OPTIONAL: Gfp = Gfp::KERNEL.union(Gfp::NORETRY);

    /// Returns the maximum error of the count.
    fn error_pages(mode: LimitMode) -> usize {
        match mode {
            LimitMode::Approx => usize::from(BATCH.get()) * cpu::nr_cpu_ids() as usize,
            // Exact in a single task.
            LimitMode::Exact | LimitMode::Credit => 0,
        }
    }

    /// Allocates pages until an allocation fails, at most `max` pages.
    fn take(pages: &LimitedPages, max: usize) -> Result<KVec<Page>> {
        let mut taken = KVec::new();

        while taken.len() < max {
            let Some(page) = pages.alloc(OPTIONAL) else {
                break;
            };
            taken.push(page, GFP_KERNEL)?;
        }
        Ok(taken)
    }

    #[test]
    fn limit_applies_to_optional_pages() -> Result {
        for mode in MODES {
            let pages = pages_of(mode, PageMode::Bulk)?;
            let limit = pages.share.limit_pages();
            let error = error_pages(mode);

            let taken = take(&pages, limit + 2 * error + 1)?;
            assert!(taken.len() <= limit + error);
            assert!(taken.len() + error >= limit);
            assert_eq!(pages.allocated.pages(), taken.len());

            let mut slots = [None, None];
            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert!(slots.iter().all(Option::is_none));

            let needed = pages.alloc(Gfp::KERNEL).ok_or(ENOMEM)?;
            assert_eq!(pages.allocated.pages(), taken.len() + 1);
            pages.free(needed);

            taken.into_iter().for_each(|page| pages.free(page));
            assert_eq!(pages.allocated.pages(), 0);
            assert!(pages.alloc(OPTIONAL).map(|page| pages.free(page)).is_some());
        }
        Ok(())
    }

    #[test]
    fn targets_share_the_memory_while_they_exist() -> Result {
        let shared = Shared::new()?;
        let new = || LimitedPages::new(shared.clone(), shared.modes);

        let (first, second) = (new()?, new()?);
        assert_eq!(shared.targets.load(Relaxed), 2);
        drop(first);
        assert_eq!(shared.targets.load(Relaxed), 1);
        drop(second);
        assert_eq!(shared.targets.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn bulk_pages_are_charged_and_uncharged() -> Result {
        for mode in MODES {
            let pages = pages_of(mode, PageMode::Bulk)?;
            let mut slots = [const { None }; 32];

            pages.alloc_bulk(OPTIONAL, &mut slots);
            let count = slots.iter().flatten().count();
            assert!(count > 0);
            assert_eq!(pages.allocated.pages(), count);

            pages.free_bulk(&mut slots);
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
        }
        Ok(())
    }

    #[test]
    fn failed_allocations_are_uncharged() -> Result {
        // No stash with pages: its worker may fill it meanwhile.
        let page_modes = [
            PageMode::Single,
            PageMode::Compound,
            PageMode::Recycled(0),
            PageMode::Mixed,
        ];
        for (mode, page_mode) in MODES
            .into_iter()
            .flat_map(|mode| page_modes.map(|page_mode| (mode, page_mode)))
        {
            let pages = pages_of(mode, page_mode)?;
            let order = NonZeroU32::MIN.saturating_add(1);
            let mut slots = [const { None }; 8];

            page::ALLOC.fail(|| {
                assert!(pages.alloc(OPTIONAL).is_none());
                assert!(pages.alloc(Gfp::KERNEL).is_none());
                assert!(pages.alloc_compound(order).is_none());
                pages.alloc_bulk(OPTIONAL, &mut slots);
            });
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
            let stats = &pages.share.0.stats;
            assert!(stats.iter().all(|count| count.sum() == 0));
        }
        Ok(())
    }

    #[test]
    fn single_pages_are_counted_unless_for_the_reserve() -> Result {
        let pages = pages_of(LimitMode::Exact, PageMode::Single)?;
        let count = || pages.share.0.stats.at::<SINGLE_PAGES>().sum();

        let reserve = pages.alloc(Gfp::KERNEL).ok_or(ENOMEM)?;
        assert_eq!(count(), 0);
        let page = pages.alloc(OPTIONAL).ok_or(ENOMEM)?;
        assert_eq!(count(), 1);
        pages.free(reserve);
        pages.free(page);
        Ok(())
    }

    #[test]
    fn three_modes_allocate_in_bulk() -> Result {
        for (mode, count) in [
            (PageMode::Single, 0),
            (PageMode::Bulk, 8),
            (PageMode::Compound, 0),
            (PageMode::Recycled(0), 8),
            (PageMode::Recycled(8), 8),
            (PageMode::Mixed, 8),
        ] {
            let pages = pages_of(LimitMode::Credit, mode)?;
            let mut slots = [const { None }; 8];

            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert_eq!(slots.iter().flatten().count(), count);
            assert_eq!(pages.allocated.pages(), count);
            pages.free_bulk(&mut slots);
        }
        Ok(())
    }

    #[test]
    fn two_modes_allocate_and_charge_compound_pages() -> Result {
        let order = NonZeroU32::MIN.saturating_add(1);
        for mode in [PageMode::Single, PageMode::Bulk, PageMode::Recycled(8)] {
            let pages = pages_of(LimitMode::Credit, mode)?;
            assert!(pages.alloc_compound(order).is_none());
        }

        for (limit_mode, mode) in MODES
            .into_iter()
            .flat_map(|mode| [(mode, PageMode::Compound), (mode, PageMode::Mixed)])
        {
            let pages = pages_of(limit_mode, mode)?;
            let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
            assert!(block.order() <= order.get());
            assert_eq!(pages.allocated.pages(), block.pages());
            let counted = pages.share.0.stats.at::<COMPOUND_PAGES>().sum();
            assert_eq!(counted, block.pages() as u64);
            pages.free_compound(block);
            assert_eq!(pages.allocated.pages(), 0);

            let limit = pages.share.limit_pages();
            pages.allocated.charge(limit + error_pages(limit_mode));
            assert!(pages.alloc_compound(order).is_none());
            pages.allocated.uncharge(limit + error_pages(limit_mode));
        }
        Ok(())
    }

    #[test]
    fn compound_mode_falls_back_to_smaller_orders() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Compound)?;
        let limit = pages.share.limit_pages();
        pages.allocated.charge(limit - 3);

        let order = NonZeroU32::MIN.saturating_add(4);
        let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
        assert_eq!(block.pages(), 2);
        pages.free_compound(block);
        pages.allocated.uncharge(limit - 3);
        Ok(())
    }

    #[test]
    fn mixed_mode_uses_one_order_only() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Mixed)?;
        let order = NonZeroU32::MIN.saturating_add(7);
        let block = pages.alloc_compound(order).ok_or(ENOMEM)?;
        assert_eq!(block.order(), ORDER_OF_CPU);
        pages.free_compound(block);

        // The rest of the limit suffices for a smaller block.
        let limit = pages.share.limit_pages();
        pages.allocated.charge(limit - 3);
        assert!(pages.alloc_compound(order).is_none());
        pages.allocated.uncharge(limit - 3);
        Ok(())
    }

    #[test]
    fn recycled_mode_reuses_freed_pages() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Recycled(32))?;
        let cache = pages.cache.as_ref().ok_or(EINVAL)?;
        let mut slots = [const { None }; 32];

        // The task may migrate, so the second round may find only a part of the pages in its stash.
        for _ in 0..4 {
            pages.alloc_bulk(OPTIONAL, &mut slots);
            assert_eq!(slots.iter().flatten().count(), 32);
            assert_eq!(pages.allocated.pages(), 32);
            pages.free_bulk(&mut slots);
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(pages.allocated.pages(), 0);
            assert!(cache.cached() >= 32);
        }
        let page = pages.alloc(OPTIONAL).ok_or(ENOMEM)?;
        assert_eq!(pages.allocated.pages(), 1);
        let stats = &pages.share.0.stats;
        let others = stats.at::<BULK_PAGES>().sum() + stats.at::<SINGLE_PAGES>().sum();
        assert_eq!(stats.at::<CACHED_PAGES>().sum() + others, 4 * 32 + 1);
        pages.free(page);
        assert_eq!(pages.allocated.pages(), 0);
        Ok(())
    }

    #[test]
    fn mixed_mode_reuses_the_pages_of_small_writes() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Mixed)?;
        let cache = pages.cache.as_ref().ok_or(EINVAL)?;
        let mut large = [const { None }; SMALL_PAGES + 1];
        let mut small = [const { None }; SMALL_PAGES];

        pages.alloc_bulk(OPTIONAL, &mut large);
        assert!(large.iter().all(Option::is_some));
        pages.free_bulk(&mut large);
        assert_eq!(cache.cached(), 0);
        for _ in 0..4 {
            pages.alloc_bulk(OPTIONAL, &mut small);
            assert!(small.iter().all(Option::is_some));
            pages.free_bulk(&mut small);
            assert!(cache.cached() >= SMALL_PAGES);
        }
        assert_eq!(pages.allocated.pages(), 0);
        Ok(())
    }

    #[test]
    fn mixed_mode_keeps_the_pages_of_many_small_writes() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Mixed)?;
        let cache = pages.cache.as_ref().ok_or(EINVAL)?;
        let mut writes = [const { [const { None }; 1] }; 32];

        for write in &mut writes {
            pages.alloc_bulk(OPTIONAL, write);
            assert!(write[0].is_some());
        }
        // The work item may have filled the stash since.
        cache.drain();
        for write in &mut writes {
            pages.free_bulk(write);
        }
        assert!(cache.cached() >= writes.len());
        assert_eq!(pages.allocated.pages(), 0);
        Ok(())
    }

    /// In a small guest, all targets have the lowest limit.
    #[test]
    fn limit_rises_and_falls() -> Result {
        let allocated = Limit::new(LimitMode::Credit)?;

        for limit in [1000, 100, 1000, 100, 1000] {
            assert!(!allocated.try_charge(limit + 1, limit));
            assert!(allocated.try_charge(limit, limit));
            allocated.uncharge(limit);
        }
        Ok(())
    }

    #[test]
    fn targets_share_two_percent_of_the_memory() {
        for (targets, expected) in [(0, 200_000), (1, 200_000), (2, 100_000), (8, 25_000)] {
            assert_eq!(share_pages(10_000_000, targets), expected);
        }
        for targets in [1, 10] {
            assert_eq!(share_pages(1000, targets), MIN_PAGES_PER_TARGET);
        }
    }

    #[test]
    fn limit_follows_the_number_of_targets() -> Result {
        let pages = pages_of(LimitMode::Credit, PageMode::Bulk)?;
        let limit = pages.share.limit_pages();
        assert!(pages.try_charge(limit));
        pages.allocated.uncharge(limit);

        let others = [(); 3].map(|()| Share::new(pages.share.0.clone()));
        let share = pages.share.limit_pages();
        assert!(!pages.try_charge(share + 1));
        assert!(pages.try_charge(share));
        pages.allocated.uncharge(share);

        drop(others);
        assert!(pages.try_charge(limit));
        pages.allocated.uncharge(limit);
        Ok(())
    }

    #[test]
    fn targets_share_the_memory() -> Result {
        let shared = Shared::new()?;
        let alone = Share::new(shared.clone());
        let limit = alone.limit_pages();

        let others = [(); 3].map(|()| Share::new(shared.clone()));
        let share = alone.limit_pages();
        assert!(share <= limit / 4 + 1 || share == MIN_PAGES_PER_TARGET);
        assert!(limit >= MIN_PAGES_PER_TARGET && share >= MIN_PAGES_PER_TARGET);

        drop(others);
        assert_eq!(alone.limit_pages(), limit);
        Ok(())
    }
}
