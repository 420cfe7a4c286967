// SPDX-License-Identifier: GPL-2.0

//! A domain with the kernel's caches of freed ranges.

use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

use core::{
    num::NonZeroUsize,
    ops::Deref, //
};

use crate::{
    bindings,
    sync::StableRef, //
};

use super::{
    domain::Domain,
    range::Range,
    space::Free, //
};

/// The action of [`CachedDomain::alloc_fast()`] and
/// [`magazine::Cache::alloc()`](super::magazine::Cache::alloc) when caches and tree have no range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Fail. For a first attempt, for example below 4 GiB, before a second one with another limit.
    Fail,
    /// Free the cached ranges of all CPUs, and retry. Slow.
    FlushRcaches,
}

/// The error of [`Domain::init_rcaches()`] if memory is short. It returns the domain.
///
/// Converts to [`ENOMEM`].
pub struct InitRcachesError {
    /// The domain, unchanged.
    pub domain: Domain,
    error: Error,
}

impl From<InitRcachesError> for Error {
    fn from(error: InitRcachesError) -> Self {
        error.error
    }
}

impl Domain {
    /// Adds caches of freed ranges, one per CPU for each power of two up to 32 page frames.
    ///
    /// Fails with [`ENOMEM`], and returns the domain.
    ///
    /// Context: Process context. May sleep. Takes the CPU hotplug lock, so it must not be called in
    /// a hotplug callback. Takes six cache lines of memory for each possible CPU, and 1 KiB for
    /// each magazine of 127 ranges in use. C: `iova_domain_init_rcaches()` in
    /// `drivers/iommu/iova.c`.
    pub fn init_rcaches(self) -> Result<CachedDomain, InitRcachesError> {
        // SAFETY: The domain is initialised by its type invariants. It has no caches: a domain with
        // caches is inside a `CachedDomain`, which never gives up its domain.
        let result = to_result(unsafe { bindings::iova_domain_init_rcaches(self.as_raw()) });
        match result {
            // INVARIANT: It succeeded.
            Ok(()) => Ok(CachedDomain { domain: self }),
            Err(error) => Err(InitRcachesError {
                domain: self,
                error,
            }),
        }
    }
}

/// A [`Domain`] with per-CPU caches of freed ranges.
///
/// Created by [`Domain::init_rcaches()`]. Dereferences to the domain: ranges of [`Domain::alloc()`]
/// bypass the caches.
///
/// # Invariants
///
/// `iova_domain_init_rcaches()` succeeded for `domain`.
pub struct CachedDomain {
    domain: Domain,
}

impl CachedDomain {
    /// The size in page frames of the largest ranges that are cached: 32.
    pub const MAX_CACHED_PFNS: usize = 32;

    /// Allocates a range of `size_pfns` page frames, none of them above `limit_pfn`.
    ///
    /// The range starts at a multiple of its size, rounded up to a power of two. If the rounded
    /// size is at most [`MAX_CACHED_PFNS`](Self::MAX_CACHED_PFNS), the range takes up the rounded
    /// size, and comes from the cache of this CPU if that has one.
    ///
    /// Fails as [`Domain::alloc()`] does. Also fails with [`EINVAL`] if the rounded size does not
    /// fit below `limit_pfn`: C would return a range above the limit.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `alloc_iova_fast()` in
    /// `drivers/iommu/iova.c`.
    #[inline]
    pub fn alloc_fast(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<&Self>> {
        Self::alloc_from(self, size_pfns, limit_pfn, when_full)
    }

    /// Allocates a range that holds a reference to the domain.
    ///
    /// As [`alloc_fast`](Self::alloc_fast) otherwise. Takes a reference to the domain, in a cache
    /// line that all CPUs share.
    ///
    /// Context: As [`alloc_fast`](Self::alloc_fast).
    #[inline]
    pub fn alloc_fast_arc(
        self: &Arc<Self>,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<Arc<Self>>> {
        Self::alloc_from(self.clone(), size_pfns, limit_pfn, when_full)
    }

    #[inline]
    fn alloc_from<R: StableRef<Target = Self>>(
        space: R,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<R>> {
        let pfn = space
            .get_ref()
            .alloc_pfn_fast(size_pfns, limit_pfn, when_full)?;
        // SAFETY: `alloc_pfn_fast()` has just allocated it, and `free()` frees such ranges.
        Ok(unsafe { Range::new(space, pfn, size_pfns) })
    }

    #[inline]
    fn alloc_pfn_fast(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<NonZeroUsize> {
        let taken_pfns = match size_pfns {
            1..Self::MAX_CACHED_PFNS => size_pfns.next_power_of_two(),
            _ => size_pfns,
        };
        self.domain.check(taken_pfns, limit_pfn)?;

        // SAFETY:
        // - The domain is initialised by its type invariants, and has caches by those of `self`.
        //   The library holds a reference to the slab caches of nodes and of magazines.
        // - `check()` has checked the limit and the size to which C rounds up. C searches the
        //   caches up to the limit less that size, so this difference does not wrap.
        let pfn = unsafe {
            bindings::alloc_iova_fast(
                self.domain.as_raw(),
                size_pfns,
                limit_pfn,
                when_full == WhenFull::FlushRcaches,
            )
        };
        NonZeroUsize::new(pfn).ok_or(ENOMEM)
    }
}

impl Deref for CachedDomain {
    type Target = Domain;

    #[inline]
    fn deref(&self) -> &Domain {
        &self.domain
    }
}

impl Free for CachedDomain {
    #[inline]
    unsafe fn free(&self, pfn: usize, size_pfns: usize) {
        // SAFETY:
        // - The domain is initialised by its type invariants, and has caches by those of `self`.
        // - Ranges of `self` are from `alloc_iova_fast()`, for that size, by the safety
        //   requirements.
        unsafe { bindings::free_iova_fast(self.domain.as_raw(), pfn, size_pfns) };
    }

    #[inline]
    fn domain(&self) -> &Domain {
        &self.domain
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_cached)]
mod tests {
    use super::*;

    use super::super::{
        Alignment,
        Builder, //
    };

    use crate::percpu::testing::{
        migrate_disable,
        on_all_cpus, //
    };

    use kernel::{
        page::PAGE_SIZE,
        sync::atomic::{
            Atomic,
            Relaxed, //
        }, //
    };

    fn domain() -> Result<CachedDomain> {
        Ok(Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?)
    }

    #[test]
    fn sizes_and_limits_are_checked() -> Result {
        const LAST: usize = usize::MAX / PAGE_SIZE;
        // Size, limit, first page frame or error.
        let rows = [
            (0, 100, Err(EINVAL)),
            (1, 0, Err(EINVAL)),
            (1, 1, Ok(1)),
            (1, LAST + 1, Err(EINVAL)),
            (1, usize::MAX, Err(EINVAL)),
            (2, LAST, Ok(LAST - 1)),
            // These take up 32, at a multiple of 32.
            (17, 31, Err(EINVAL)),
            (17, 32, Err(ENOMEM)),
            (31, 63, Ok(32)),
            (32, 63, Ok(32)),
            // These take up the requested size, at a multiple of 64.
            (33, 63, Err(ENOMEM)),
            (33, 96, Ok(64)),
            (101, 100, Err(EINVAL)),
            (102, 100, Err(EINVAL)),
            (usize::MAX, LAST, Err(EINVAL)),
            (usize::MAX, usize::MAX, Err(EINVAL)),
        ];

        for (size_pfns, limit_pfn, expected) in rows {
            let domain = domain()?;
            for when_full in [WhenFull::Fail, WhenFull::FlushRcaches] {
                let range = domain.alloc_fast(size_pfns, limit_pfn, when_full);
                assert_eq!(range.map(|range| range.pfn()), expected);
            }
        }
        Ok(())
    }

    #[test]
    fn freed_range_is_cached_and_reused() -> Result {
        // Size, size of the next allocation, whether it gets the same first page frame.
        const ROWS: [(usize, usize, bool); 7] = [
            (1, 1, true),
            (3, 4, true),
            (4, 3, true),
            (4, 2, false),
            (17, 32, true),
            (32, 33, false),
            (33, 33, true),
        ];

        for (first, second, same) in ROWS {
            let domain = domain()?;

            // On one CPU, to use one cache.
            let here = migrate_disable();
            let freed = domain.alloc_fast(first, 1023, WhenFull::Fail);
            let freed = freed.map(|range| range.pfn());
            let highest = domain.alloc(1, 1023, Alignment::Any).map(|it| it.pfn());
            let taken = domain.alloc_fast(second, 1023, WhenFull::Fail);
            let taken = taken.map(|range| (range.pfn(), range.size_pfns()));
            drop(here);

            let (freed, highest, taken) = (freed?, highest?, taken?);
            assert_eq!(taken.1, second);
            assert!((taken.0 == freed) == same);
            // A cached range stays in the tree.
            assert!((highest == 1023) == (first > CachedDomain::MAX_CACHED_PFNS));
        }
        Ok(())
    }

    /// In C the limit less the size would wrap, and every cached range would be below it.
    #[test]
    fn cached_ranges_above_the_limit_are_skipped() -> Result {
        // Size, limit, first page frame or error.
        let rows = [
            (32, 20, Err(EINVAL)),
            (17, 20, Err(EINVAL)),
            (17, 50, Err(ENOMEM)),
            (17, 63, Ok(32)),
        ];

        for (size_pfns, limit_pfn, expected) in rows {
            let domain = domain()?;

            let here = migrate_disable();
            let cached = domain.alloc_fast(32, 1023, WhenFull::Fail);
            let cached = cached.map(|range| range.pfn());
            let taken = domain.alloc_fast(size_pfns, limit_pfn, WhenFull::Fail);
            let taken = taken.map(|range| range.pfn());
            drop(here);

            assert_eq!(cached?, 992);
            assert_eq!(taken, expected);
        }
        Ok(())
    }

    #[test]
    fn flush_rcaches_allocates_from_flushed_caches() -> Result {
        let domain = domain()?;
        drop(domain.alloc_fast(32, 127, WhenFull::Fail)?);

        let failed = domain.alloc_fast(64, 127, WhenFull::Fail);
        assert_eq!(failed.map(|range| range.pfn()), Err(ENOMEM));

        let range = domain.alloc_fast(64, 127, WhenFull::FlushRcaches)?;
        assert_eq!(range.pfn(), 64);
        Ok(())
    }

    #[test]
    fn domain_drops_with_full_caches_and_leaked_ranges() -> Result {
        let domain = Arc::new(domain()?, GFP_KERNEL)?;
        let mut ranges = KVec::new();
        // More than the two magazines of a CPU hold.
        for _ in 0..300 {
            ranges.push(domain.alloc_fast(1, 1023, WhenFull::Fail)?, GFP_KERNEL)?;
        }
        core::mem::forget(ranges.pop());
        drop(ranges);
        core::mem::forget(domain.alloc(3, 1023, Alignment::Any)?);

        let last = domain.alloc_fast_arc(2, 1023, WhenFull::Fail)?;
        drop(domain);
        assert_eq!(last.addr(), (last.pfn() * PAGE_SIZE) as u64);
        Ok(())
    }

    /// A domain, and whether each of its page frames is in use.
    struct Model {
        domain: CachedDomain,
        taken: KVec<Atomic<bool>>,
        errors: Atomic<u32>,
    }

    #[test]
    fn ranges_of_all_cpus_do_not_overlap() -> Result {
        const PFNS: usize = 1024;
        const ROUNDS: usize = 1000;
        let mut taken = KVec::with_capacity(PFNS, GFP_KERNEL)?;
        for _ in 0..PFNS {
            taken.push(Atomic::new(false), GFP_KERNEL)?;
        }
        let model = Model {
            domain: domain()?,
            taken,
            errors: Atomic::new(0),
        };
        let model = Arc::new(model, GFP_KERNEL)?;

        on_all_cpus(&model, |model| {
            let mut held = [const { None }; 8];
            for round in 0..ROUNDS {
                let slot = &mut held[round % 8];
                let note = |range: &Range<&CachedDomain>, is_taken: bool| {
                    for pfn in range.pfn()..range.pfn() + range.size_pfns() {
                        if model.taken[pfn].xchg(is_taken, Relaxed) == is_taken {
                            model.errors.add(1, Relaxed);
                        }
                    }
                };
                if let Some(range) = slot.take() {
                    note(&range, false);
                }
                let size_pfns = 1 + round % 7;
                *slot = model
                    .domain
                    .alloc_fast(size_pfns, PFNS - 1, WhenFull::FlushRcaches)
                    .ok();
                if let Some(range) = slot {
                    note(range, true);
                } else {
                    model.errors.add(1, Relaxed);
                }
            }
            for range in held.into_iter().flatten() {
                for pfn in range.pfn()..range.pfn() + range.size_pfns() {
                    model.taken[pfn].store(false, Relaxed);
                }
            }
        })?;

        assert_eq!(model.errors.load(Relaxed), 0);
        Ok(())
    }
}
