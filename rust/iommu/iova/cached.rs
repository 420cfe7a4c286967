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

use crate::bindings;

use super::{
    domain::Domain,
    range::Range,
    space::{
        Free,
        SpaceRef, //
    }, //
};

/// What [`CachedDomain::alloc_fast()`] and [`magazine::Cache::alloc()`](super::magazine::Cache::alloc)
/// do if neither the caches nor the tree have a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It fails. For a first try, below 4 GiB say, that a second one with another limit follows.
    Fail,
    /// It frees what the caches of all CPUs hold, and tries again. Takes long.
    FlushRcaches,
}

/// There was no memory for the caches; this is the domain they were for.
///
/// Converts to [`ENOMEM`].
pub struct InitRcachesError {
    /// The domain, as it was.
    pub domain: Domain,
    error: Error,
}

impl From<InitRcachesError> for Error {
    fn from(error: InitRcachesError) -> Self {
        error.error
    }
}

impl Domain {
    /// Gives the domain a cache of freed ranges for each CPU and each size, a power of two up to 32.
    ///
    /// Fails with [`ENOMEM`], and gives the domain back.
    ///
    /// Context: process. Sleeps, until no CPU is coming or going, and so not in a callback of CPU
    /// hotplug. Takes six lines of memory for each possible CPU, and a kibibyte for each magazine of
    /// 127 ranges once there are any. C: `iova_domain_init_rcaches()` in `drivers/iommu/iova.c`.
    pub fn init_rcaches(self) -> Result<CachedDomain, InitRcachesError> {
        // SAFETY: The domain is initialised by its type invariants, and has no caches: it would be
        // inside a `CachedDomain`, which does not give it away.
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

/// A [`Domain`] whose ranges go to caches when they are freed, and are taken from there.
///
/// Made by [`Domain::init_rcaches()`]. Derefs to the domain: ranges of [`Domain::alloc()`] do not
/// pass through the caches.
///
/// # Invariants
///
/// `iova_domain_init_rcaches()` succeeded for `domain`.
pub struct CachedDomain {
    domain: Domain,
}

impl CachedDomain {
    /// Up to this size in page frames, ranges are cached: 32.
    pub const MAX_CACHED_PFNS: usize = 32;

    /// Allocates a range of `size_pfns` page frames, none of them above `limit_pfn`.
    ///
    /// It starts at a multiple of its size rounded up to a power of two. If that is at most
    /// [`MAX_CACHED_PFNS`](Self::MAX_CACHED_PFNS) then it takes up as many page frames, too, and
    /// comes from the cache of this CPU if there is one.
    ///
    /// Fails as [`Domain::alloc()`] does; with [`EINVAL`] also if what it takes up is more than
    /// there is up to `limit_pfn`, for which C would return a range above it.
    ///
    /// Context: any but NMI. Never sleeps. C: `alloc_iova_fast()` in `drivers/iommu/iova.c`.
    #[inline]
    pub fn alloc_fast(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<&Self>> {
        Self::alloc_from(self, size_pfns, limit_pfn, when_full)
    }

    /// Allocates a range that keeps the domain alive.
    ///
    /// As [`alloc_fast`](Self::alloc_fast) otherwise. Costs a reference to the domain, which all CPUs
    /// share.
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
    fn alloc_from<R: SpaceRef<Space = Self>>(
        space: R,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<R>> {
        let pfn = space
            .space()
            .alloc_pfn_fast(size_pfns, limit_pfn, when_full)?;
        // SAFETY: It was allocated just now, and `free()` frees what `alloc_pfn_fast()` returns.
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
        // - The domain is initialised by its type invariants, has caches by those of `self`, and the
        //   library has a reference to the cache of nodes and that of magazines.
        // - The limit was checked, and the size that C rounds up to: see there. So the limit less that
        //   size, up to which C looks for ranges in the caches, does not wrap.
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
        // - Ranges of `self` are from `alloc_iova_fast()`, for that size; by the safety requirements.
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
        // Size, limit, first page frame or what it fails with.
        let rows = [
            (0, 100, Err(EINVAL)),
            (1, 0, Err(EINVAL)),
            (1, 1, Ok(1)),
            (1, LAST + 1, Err(EINVAL)),
            (1, usize::MAX, Err(EINVAL)),
            (2, LAST, Ok(LAST - 1)),
            // They take up 32, which start at a multiple of that.
            (17, 31, Err(EINVAL)),
            (17, 32, Err(ENOMEM)),
            (31, 63, Ok(32)),
            (32, 63, Ok(32)),
            // They take up what they ask for, from a multiple of 64 on.
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
    fn a_freed_range_is_cached_and_taken_again() -> Result {
        // Size, size of the next, whether that is where the first was.
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

            // On this CPU, whose cache it is.
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
            // What is cached is still in the tree.
            assert!((highest == 1023) == (first > CachedDomain::MAX_CACHED_PFNS));
        }
        Ok(())
    }

    /// The limit less the size would wrap in C, and any cached range be below that.
    #[test]
    fn what_is_cached_above_the_limit_is_not_taken() -> Result {
        // Size, limit, first page frame or what it fails with.
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
    fn caches_are_flushed_for_who_asks_for_it() -> Result {
        let domain = domain()?;
        drop(domain.alloc_fast(32, 127, WhenFull::Fail)?);

        let failed = domain.alloc_fast(64, 127, WhenFull::Fail);
        assert_eq!(failed.map(|range| range.pfn()), Err(ENOMEM));

        let range = domain.alloc_fast(64, 127, WhenFull::FlushRcaches)?;
        assert_eq!(range.pfn(), 64);
        Ok(())
    }

    #[test]
    fn a_domain_goes_with_full_caches_and_forgotten_ranges() -> Result {
        let domain = Arc::new(domain()?, GFP_KERNEL)?;
        let mut ranges = KVec::new();
        // More than the two magazines of a CPU.
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

    /// Page frames, and which of them somebody has.
    struct Books {
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
        let books = Books {
            domain: domain()?,
            taken,
            errors: Atomic::new(0),
        };
        let books = Arc::new(books, GFP_KERNEL)?;

        on_all_cpus(&books, |books| {
            let mut held = [const { None }; 8];
            for round in 0..ROUNDS {
                let slot = &mut held[round % 8];
                let note = |range: &Range<&CachedDomain>, is_taken: bool| {
                    for pfn in range.pfn()..range.pfn() + range.size_pfns() {
                        if books.taken[pfn].xchg(is_taken, Relaxed) == is_taken {
                            books.errors.add(1, Relaxed);
                        }
                    }
                };
                if let Some(range) = slot.take() {
                    note(&range, false);
                }
                let size_pfns = 1 + round % 7;
                *slot = books
                    .domain
                    .alloc_fast(size_pfns, PFNS - 1, WhenFull::FlushRcaches)
                    .ok();
                if let Some(range) = slot {
                    note(range, true);
                } else {
                    books.errors.add(1, Relaxed);
                }
            }
            for range in held.into_iter().flatten() {
                for pfn in range.pfn()..range.pfn() + range.size_pfns() {
                    books.taken[pfn].store(false, Relaxed);
                }
            }
        })?;

        assert_eq!(books.errors.load(Relaxed), 0);
        Ok(())
    }
}
