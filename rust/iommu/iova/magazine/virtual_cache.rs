// SPDX-License-Identifier: GPL-2.0

//! The magazine cache of virtual CPUs.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use super::{
    super::{
        cached::WhenFull,
        domain::Domain,
        range::Range,
        space::Free, //
    },
    caches::{
        Caches,
        Counts,
        Usage,
        ORDERS, //
    },
    cpus::VirtualCpus,
    policy::Policy, //
};

/// A [`Cache`](super::Cache) with any number of virtual CPUs, to examine a policy.
///
/// Its behaviour does not depend on the machine. Code runs on the virtual CPU that
/// [`run_on()`](Self::run_on) sets. The caller triggers the periodic work ([`trim()`](Self::trim)),
/// so every run does the same. Otherwise both types run the same code.
pub struct VirtualCache {
    caches: Caches<VirtualCpus>,
    current: Arc<Atomic<usize>>,
    cpus: usize,
}

impl VirtualCache {
    /// The maximum number of virtual CPUs: 4096.
    pub const MAX_CPUS: usize = 4096;

    /// Creates a cache of ranges of `domain` for CPUs 0 to `cpus` - 1. The current CPU is 0.
    ///
    /// Fails with [`EINVAL`] unless `cpus` is from 1 to [`MAX_CPUS`](Self::MAX_CPUS), and with
    /// [`ENOMEM`].
    ///
    /// Context: Process context. May sleep.
    pub fn new(domain: Arc<Domain>, policy: Policy, cpus: usize) -> Result<Self> {
        if !(1..=Self::MAX_CPUS).contains(&cpus) {
            return Err(EINVAL);
        }
        let current = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        Ok(Self {
            caches: Caches::new(domain, policy, || VirtualCpus::new(cpus, current.clone()))?,
            current,
            cpus,
        })
    }

    /// Sets the current virtual CPU, for all tasks.
    ///
    /// Fails with [`EINVAL`] if there is no such CPU.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn run_on(&self, cpu: usize) -> Result {
        if cpu >= self.cpus {
            return Err(EINVAL);
        }
        self.current.store(cpu, Relaxed);
        Ok(())
    }

    /// Allocates a range of `size_pfns` page frames, none of them above `limit_pfn`.
    ///
    /// As [`Cache::alloc()`](super::Cache::alloc).
    ///
    /// Context: As [`Cache::alloc()`](super::Cache::alloc).
    #[inline]
    pub fn alloc(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<&Self>> {
        let pfn = self.caches.alloc(size_pfns, limit_pfn, when_full)?;
        // SAFETY: `Caches::alloc()` has just allocated it, and `free()` frees such ranges.
        Ok(unsafe { Range::new(self, pfn, size_pfns) })
    }

    /// Does the work that is due every 100 ms: frees the surplus of the policy.
    ///
    /// Context: Any context except NMI. Never sleeps. May take long.
    pub fn trim(&self) {
        self.caches.trim();
    }

    /// Returns the event counts.
    ///
    /// Context: Any context. Never sleeps.
    pub fn counts(&self) -> Counts {
        self.caches.counts()
    }

    /// Returns the current contents.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the lock of every CPU.
    pub fn usage(&self) -> Usage {
        self.caches.usage()
    }

    /// Returns the maximum number of magazines in the depot of each size since the last call.
    ///
    /// The sizes are 1, 2, 4, 8, 16 and 32 page frames.
    ///
    /// Context: Any context except NMI. Never sleeps.
    pub fn take_longest(&self) -> [usize; ORDERS] {
        self.caches.take_longest()
    }
}

impl Free for VirtualCache {
    #[inline]
    unsafe fn free(&self, pfn: usize, size_pfns: usize) {
        // SAFETY: Ranges of a cache are from `Caches::alloc()`, by the safety requirements.
        unsafe { self.caches.free(pfn, size_pfns) };
    }

    #[inline]
    fn domain(&self) -> &Domain {
        self.caches.domain()
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_magazine_virtual)]
mod tests {
    use super::*;

    use super::super::{
        super::{
            testing::all_of,
            Alignment,
            Builder, //
        },
        array::MAGAZINE_SIZE, //
    };

    use kernel::page::PAGE_SIZE;

    const LIMIT_PFN: usize = 1 << 20;

    fn domain() -> Result<Arc<Domain>> {
        Ok(Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?)
    }

    fn cache(policy: Policy, cpus: usize) -> Result<VirtualCache> {
        VirtualCache::new(domain()?, policy, cpus)
    }

    /// Allocates ranges of one page frame on CPU `from`, and frees them on CPU `to`.
    fn pass(cache: &VirtualCache, count: usize, from: usize, to: usize) -> Result {
        let mut ranges = KVec::with_capacity(count, GFP_KERNEL)?;
        cache.run_on(from)?;
        for _ in 0..count {
            ranges.push(
                cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?,
                GFP_KERNEL,
            )?;
        }
        cache.run_on(to)
    }

    #[test]
    fn invalid_ranges_are_rejected() -> Result {
        let domain = Arc::new(Builder::new(PAGE_SIZE, 4)?.build(), GFP_KERNEL)?;
        let last_pfn = domain.last_pfn();
        let cache = VirtualCache::new(domain, Policy::Adaptive, 1)?;
        // Size, limit, first page frame or error.
        let rows = [
            (0, 100, Err(EINVAL)),
            (1, 3, Err(EINVAL)),
            (1, 4, Ok(4)),
            (2, 4, Err(EINVAL)),
            (2, 5, Ok(4)),
            // Takes up four page frames.
            (3, 6, Err(EINVAL)),
            (3, 7, Ok(4)),
            (32, 34, Err(EINVAL)),
            (33, 1 << 10, Ok((1 << 10) - 64)),
            (1, last_pfn, Ok(last_pfn)),
            (1, last_pfn + 1, Err(EINVAL)),
            (1, usize::MAX, Err(EINVAL)),
            (usize::MAX, last_pfn, Err(EINVAL)),
            ((1 << 63) + 1, last_pfn, Err(EINVAL)),
        ];

        for (size_pfns, limit_pfn, expected) in rows {
            let result = cache.alloc(size_pfns, limit_pfn, WhenFull::FlushRcaches);
            assert_eq!(result.map(|range| range.pfn()), expected);
            // The next one must not come from a magazine.
            cache.caches.flush();
        }
        Ok(())
    }

    #[test]
    fn cpu_numbers_have_bounds() -> Result {
        for cpus in [0, VirtualCache::MAX_CPUS + 1, usize::MAX] {
            assert_eq!(cache(Policy::Scaled, cpus).err(), Some(EINVAL));
        }
        let cache = cache(Policy::Scaled, 2)?;
        for (cpu, expected) in [(0, Ok(())), (1, Ok(())), (2, Err(EINVAL))] {
            assert_eq!(cache.run_on(cpu), expected);
        }
        Ok(())
    }

    #[test]
    fn freed_range_is_allocated_again() -> Result {
        let cache = cache(Policy::FixedDrop, 1)?;

        for size_pfns in [1, 2, 3, 4, 5, 8, 16, 31, 32] {
            let first = cache
                .alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?
                .pfn();
            let second = cache
                .alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?
                .pfn();
            assert_eq!(first, second);
            assert_eq!(first % size_pfns.next_power_of_two(), 0);
        }
        // 3 is rounded to 4, 5 to 8, and 31 to 32.
        assert_eq!(cache.counts().tree_allocs, ORDERS);
        assert_eq!(cache.usage().cached, ORDERS);

        // Larger ranges are not cached.
        drop(cache.alloc(33, LIMIT_PFN, WhenFull::FlushRcaches)?);
        assert_eq!(cache.usage().ranges, ORDERS);
        Ok(())
    }

    #[test]
    fn start_pfn_is_at_most_the_limit() -> Result {
        let cache = cache(Policy::Adaptive, 1)?;
        let (high, low) = (
            cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?,
            cache.alloc(1, 99, WhenFull::FlushRcaches)?,
        );
        drop(low);
        drop(high);

        // The range that was freed last is above the limit.
        assert_eq!(cache.alloc(1, 99, WhenFull::FlushRcaches)?.pfn(), 99);
        assert_eq!(cache.counts().tree_allocs, 2);
        // Both are.
        assert_eq!(cache.alloc(1, 98, WhenFull::FlushRcaches)?.pfn(), 98);
        assert_eq!(cache.counts().tree_allocs, 3);
        Ok(())
    }

    #[test]
    fn last_pfn_is_at_most_the_limit() -> Result {
        for size_pfns in [2_usize, 3, 4, 16, 32] {
            let cache = cache(Policy::Adaptive, 1)?;
            let taken_pfns = size_pfns.next_power_of_two();
            let first = cache
                .alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?
                .pfn();

            // A cached range fits if its last page frame is at most the limit.
            let last = first + taken_pfns - 1;
            let kept = cache.alloc(size_pfns, last, WhenFull::FlushRcaches)?.pfn();
            assert_eq!(kept, first);
            assert_eq!(cache.counts().tree_allocs, 1);
            for limit in [last - 1, first] {
                let other = cache.alloc(size_pfns, limit, WhenFull::FlushRcaches)?;
                assert!(other.pfn() + taken_pfns - 1 <= limit);
            }
        }
        Ok(())
    }

    #[test]
    fn no_cached_range_is_above_the_limit() -> Result {
        let cache = cache(Policy::Adaptive, 1)?;
        drop(cache.alloc(5, LIMIT_PFN, WhenFull::FlushRcaches)?);
        drop(cache.alloc(8, LIMIT_PFN, WhenFull::FlushRcaches)?);

        // Both sizes take up eight page frames, of which page frame 0 can be none.
        for (size_pfns, limit_pfn, expected) in [
            (5, 5, Err(EINVAL)),
            (5, 7, Err(EINVAL)),
            (8, 7, Err(EINVAL)),
            (5, 15, Ok(8)),
        ] {
            let result = cache.alloc(size_pfns, limit_pfn, WhenFull::Fail);
            assert_eq!(result.map(|range| range.pfn()), expected);
        }
        Ok(())
    }

    #[test]
    fn full_magazines_move_between_cpus() -> Result {
        for policy in Policy::ALL {
            let cache = cache(policy, 2)?;
            pass(&cache, 3 * MAGAZINE_SIZE, 0, 1)?;
            let depot = cache.usage().depot;
            assert!(depot == 1 || policy == Policy::Adaptive && depot > 1);

            pass(&cache, MAGAZINE_SIZE, 0, 0)?;
            assert_eq!(cache.counts().tree_allocs, 3 * MAGAZINE_SIZE);
            // The CPU of `Adaptive` returns some of what it frees.
            assert!(cache.usage().depot == 0 || policy == Policy::Adaptive);
        }
        Ok(())
    }

    #[test]
    fn usage_has_the_memory_of_nodes_and_magazines() -> Result {
        let cache = cache(Policy::Trimmed, 2)?;
        assert_eq!(cache.usage().bytes(), 0);

        pass(&cache, 3 * MAGAZINE_SIZE, 0, 1)?;
        let usage = cache.usage();
        assert_eq!((usage.ranges, usage.magazines), (3 * MAGAZINE_SIZE, 3));
        // A node takes 64 bytes, and a magazine 1 KiB.
        assert_eq!(usage.bytes(), 3 * MAGAZINE_SIZE * 64 + 3 * 1024);

        let usage = Usage {
            magazines: usize::MAX,
            ..usage
        };
        assert_eq!(usage.bytes(), usize::MAX);
        Ok(())
    }

    #[test]
    fn longest_depot_is_counted_from_call_to_call() -> Result {
        let cache = cache(Policy::Trimmed, 2)?;
        assert_eq!(cache.take_longest(), [0; ORDERS]);

        // Fills both magazines of CPU 1, and moves two to the depot.
        pass(&cache, 4 * MAGAZINE_SIZE, 0, 1)?;
        assert_eq!(cache.usage().depot, 2);
        pass(&cache, 2 * MAGAZINE_SIZE, 0, 0)?;
        assert_eq!(cache.usage().depot, 0);

        assert_eq!(cache.take_longest(), [2, 0, 0, 0, 0, 0]);
        assert_eq!(cache.take_longest(), [0; ORDERS]);
        Ok(())
    }

    #[test]
    fn only_open_cpus_count_when_a_depot_is_trimmed() -> Result {
        let cache = cache(Policy::Trimmed, 4)?;
        cache.caches.close(2);
        cache.caches.close(3);

        // Fills both magazines of CPU 1, and moves three to the depot.
        pass(&cache, 5 * MAGAZINE_SIZE, 0, 1)?;
        assert_eq!(cache.usage().depot, 3);
        for _ in 0..2 {
            cache.trim();
            assert_eq!(cache.usage().depot, 2);
        }
        Ok(())
    }

    #[test]
    fn only_allocations_that_succeed_are_counted() -> Result {
        let domain = Arc::new(Builder::new(PAGE_SIZE, 4)?.build(), GFP_KERNEL)?;
        let cache = VirtualCache::new(domain, Policy::Adaptive, 1)?;

        // Page frames 4 to 7, the only ones below the limit.
        let all = cache.alloc(4, 7, WhenFull::Fail)?;
        for when_full in [WhenFull::Fail, WhenFull::FlushRcaches] {
            assert_eq!(cache.alloc(1, 7, when_full).err(), Some(ENOMEM));
        }
        assert_eq!((cache.counts().tree_allocs, cache.usage().ranges), (1, 1));

        // The first attempt finds nothing, as the page frames are in a magazine.
        drop(all);
        let one = cache.alloc(1, 7, WhenFull::FlushRcaches)?;
        assert_eq!((cache.counts().tree_allocs, cache.usage().ranges), (2, 1));
        drop(one);
        Ok(())
    }

    #[test]
    fn a_refill_frees_one_empty_magazine() -> Result {
        for policy in Policy::ALL {
            let cache = cache(policy, 2)?;
            pass(&cache, 3 * MAGAZINE_SIZE, 0, 1)?;
            let mut ranges = KVec::with_capacity(3 * MAGAZINE_SIZE, GFP_KERNEL)?;
            // Empties all magazines of CPU 1.
            while cache.usage().cached > cache.caches.depot_ranges() {
                let range = cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?;
                ranges.push(range, GFP_KERNEL)?;
            }
            let before = cache.usage();
            assert!(before.depot >= 1);

            ranges.push(
                cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?,
                GFP_KERNEL,
            )?;
            assert_eq!(cache.usage().depot, before.depot - 1);
            assert_eq!(cache.usage().magazines, before.magazines - 1);
        }
        Ok(())
    }

    #[test]
    fn adaptive_returns_what_its_cpu_does_not_use() -> Result {
        for policy in Policy::ALL {
            let cache = cache(policy, 2)?;
            pass(&cache, 2 * MAGAZINE_SIZE, 0, 1)?;
            // CPU 1 uses one at a time.
            for _ in 0..100 {
                drop(cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?);
            }

            let usage = cache.usage();
            assert_eq!(usage.cached, 2 * MAGAZINE_SIZE);
            if policy == Policy::Adaptive {
                // It keeps 24, and further ones if they are few.
                let kept = usage.cached - cache.caches.depot_ranges();
                assert!((24..=48).contains(&kept));
            } else {
                assert_eq!(usage.depot, 0);
            }
        }
        Ok(())
    }

    #[test]
    fn adaptive_keeps_what_its_cpu_uses() -> Result {
        let cache = cache(Policy::Adaptive, 1)?;

        for _ in 0..100 {
            let mut ranges = KVec::with_capacity(MAGAZINE_SIZE, GFP_KERNEL)?;
            for _ in 0..MAGAZINE_SIZE {
                let range = cache.alloc(1, LIMIT_PFN, WhenFull::FlushRcaches)?;
                ranges.push(range, GFP_KERNEL)?;
            }
        }

        // What it returns meanwhile comes back from the depot.
        assert_eq!(cache.counts().tree_allocs, MAGAZINE_SIZE);
        Ok(())
    }

    #[test]
    fn offline_cpu_caches_nothing() -> Result {
        for policy in Policy::ALL {
            // Fewer than a CPU looks at for a surplus.
            const COUNT: usize = 30;
            let cache = cache(policy, 2)?;
            pass(&cache, COUNT, 0, 1)?;

            cache.caches.close(1);
            assert_eq!((cache.usage().ranges, cache.usage().cached), (0, 0));
            // Code still runs on the offline CPU.
            pass(&cache, COUNT, 1, 1)?;
            assert_eq!((cache.usage().ranges, cache.usage().cached), (0, 0));

            cache.caches.open(1);
            pass(&cache, COUNT, 1, 1)?;
            assert_eq!(cache.usage().cached, COUNT);
            // Ranges of the other sizes have slots of their own.
            for order in 1..ORDERS {
                drop(cache.alloc(1 << order, LIMIT_PFN, WhenFull::Fail)?);
            }
            assert_eq!(cache.usage().cached, COUNT + ORDERS - 1);
        }
        Ok(())
    }

    #[test]
    fn trim_stops_at_the_policy_limit() -> Result {
        // Policy, unused magazines of 3 that are kept, with 2 CPUs. `Adaptive` has more of them.
        const ROWS: [(Policy, usize); 3] = [
            (Policy::Scaled, 3),
            (Policy::Trimmed, 2),
            (Policy::Adaptive, 0),
        ];

        for (policy, left) in ROWS {
            let cache = cache(policy, 2)?;
            pass(&cache, 5 * MAGAZINE_SIZE, 0, 1)?;
            let before = cache.caches.depot_ranges();
            for _ in 0..1000 {
                cache.trim();
            }
            assert_eq!(cache.usage().depot, left);
            assert_eq!(
                cache.counts().tree_frees,
                before - cache.caches.depot_ranges()
            );
        }
        Ok(())
    }

    #[test]
    fn full_domain_flushes_the_caches() -> Result {
        for policy in [Policy::FixedDrop, Policy::Adaptive] {
            let mut builder = Builder::new(PAGE_SIZE, 1)?;
            builder.reserve(1..=31)?;
            let domain = Arc::new(builder.build(), GFP_KERNEL)?;
            let cache = VirtualCache::new(domain, policy, 2)?;
            let mut ranges = KVec::new();
            for _ in 0..32 {
                ranges.push(cache.alloc(1, 63, WhenFull::FlushRcaches)?, GFP_KERNEL)?;
            }
            assert_eq!(
                cache.alloc(1, 63, WhenFull::FlushRcaches).err(),
                Some(ENOMEM)
            );
            drop(ranges);
            assert_eq!(cache.usage().cached, 32);

            // A range of another size, on another CPU.
            cache.run_on(1)?;
            assert_eq!(cache.alloc(32, 63, WhenFull::FlushRcaches)?.pfn(), 32);
        }
        Ok(())
    }

    #[test]
    fn caches_are_flushed_only_on_request() -> Result {
        // Action, cached ranges after an allocation below a limit has failed.
        const ROWS: [(WhenFull, usize); 2] = [(WhenFull::Fail, 400), (WhenFull::FlushRcaches, 0)];

        for policy in Policy::ALL {
            for (when_full, cached) in ROWS {
                let domain = domain()?;
                let cache = VirtualCache::new(domain.clone(), policy, 2)?;
                pass(&cache, 400, 0, 1)?;
                let _low = domain.alloc(15, 15, Alignment::Any)?;

                let before = cache.usage();
                assert!(before.depot == 2 || policy == Policy::Adaptive && before.depot > 2);
                assert_eq!(cache.alloc(1, 15, when_full).err(), Some(ENOMEM));
                let after = cache.usage();
                assert_eq!(after.cached, cached);
                // The CPUs keep their empty magazines, as in C.
                let freed = if cached == 0 { before.depot } else { 0 };
                assert_eq!(after.magazines, before.magazines - freed);
            }
        }
        Ok(())
    }

    /// A pseudo-random number generator (Marsaglia's xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            // CAST: To 64 bits. The result is less than `bound`.
            (self.0 % bound as u64) as usize
        }
    }

    #[test]
    fn ranges_do_not_overlap_and_all_are_freed() -> Result {
        const CPUS: usize = 5;

        for policy in Policy::ALL {
            let domain = domain()?;
            let cache = VirtualCache::new(domain.clone(), policy, CPUS)?;
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let mut ranges = KVec::new();
            for step in 0..2000 {
                cache.run_on(random.below(CPUS))?;
                if random.below(1000) == 0 {
                    cache.caches.close(random.below(CPUS));
                    cache.caches.open(random.below(CPUS));
                }
                // In turn, mostly allocations and mostly frees.
                if random.below(10) < if step % 1000 < 500 { 7 } else { 2 } {
                    let size_pfns = 1 + random.below(40);
                    ranges.push(
                        cache.alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?,
                        GFP_KERNEL,
                    )?;
                } else if !ranges.is_empty() {
                    let index = random.below(ranges.len());
                    drop(ranges.remove(index));
                }
            }

            for (index, one) in ranges.iter().enumerate() {
                let is_apart = |other: &Range<_>| {
                    one.pfn() + one.size_pfns() <= other.pfn()
                        || other.pfn() + other.size_pfns() <= one.pfn()
                };
                assert!(ranges.iter().skip(index + 1).all(is_apart));
            }
            let usage = cache.usage();
            assert_eq!(usage.ranges, usage.cached + ranges.len());

            drop(ranges);
            drop(cache);
            // All page frames of the domain are free again.
            assert_eq!(all_of(&domain, 400)?.len(), 400);
        }
        Ok(())
    }
}
