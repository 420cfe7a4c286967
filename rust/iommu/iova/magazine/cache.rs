// SPDX-License-Identifier: GPL-2.0

//! The magazine cache of real CPUs.

use kernel::{
    cpu::CpuId,
    impl_has_delayed_work,
    new_delayed_work,
    num::casts::IntoSafeCast,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    time::msecs_to_jiffies,
    workqueue::{
        DelayedWork,
        HasWork,
        Queue,
        WorkItem, //
    }, //
};

use crate::{
    bindings,
    module::teardown::{
        self,
        Teardown,
        TeardownId, //
    },
    percpu::hotplug, //
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
        Usage, //
    },
    cpus::PossibleCpus,
    policy::Policy, //
};

/// The interval in which the policy is asked for surplus magazines. C: `IOVA_DEPOT_DELAY`.
const TRIM_DELAY_MS: u32 = 100;

/// A [`Domain`] with per-CPU magazines of freed ranges.
///
/// It cannot be dropped while there are ranges: they borrow it, or hold a reference to it.
pub struct Cache {
    shared: Arc<Shared>,
    /// Dropped first, in `Drop`.
    hotplug: Option<hotplug::Registration<Shared>>,
    teardown: TeardownId,
}

/// The part of a cache that the work item and the hotplug callbacks use, too.
#[pin_data]
struct Shared {
    caches: Caches<PossibleCpus>,
    trims: bool,
    #[pin]
    work: DelayedWork<Shared>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Shared { self.work }
}

impl WorkItem for Shared {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        if this.caches.trim() {
            Self::trim_later(&this);
        }
    }
}

impl Shared {
    /// Queues the work item that trims the depots, unless it is queued already.
    fn trim_later(this: &Arc<Self>) {
        let delay = msecs_to_jiffies(TRIM_DELAY_MS);
        // The queue of `schedule_delayed_work()` in `include/linux/workqueue.h`. The kernel warns
        // of the deprecated `workqueue::system()`.
        //
        // SAFETY: The kernel creates this queue at boot, and never destroys it.
        let queue = unsafe { Queue::from_raw(bindings::system_percpu_wq) };
        // It is not queued if it is queued already, or is disabled.
        let _ = queue.enqueue_delayed(this.clone(), delay);
    }
}

// SAFETY: C calls nothing that depends on a type. Any task may disable the work item, and drop the
// `Arc`.
unsafe impl Teardown for Arc<Shared> {
    type OwnerModule = crate::LocalModule;

    fn callbacks() -> impl AsRef<[usize]> {
        []
    }

    /// Waits for the work item, and disables it.
    unsafe fn stop(shared: ArcBorrow<'_, Shared>) {
        let shared = Arc::from(shared);
        let this = Arc::as_ptr(&shared);
        // SAFETY: `shared` keeps the value alive.
        let work = unsafe { <Shared as HasWork<Shared>>::raw_get_work(this.cast_mut()) };
        // SAFETY: The work item was initialised with the value. C takes the locks that it needs.
        //
        // CAST: The `work_struct` is the first field of a `delayed_work`, and `Shared` has a
        // `DelayedWork`.
        if unsafe { bindings::disable_delayed_work_sync(work.cast()) } {
            // SAFETY: The item was queued and is disabled, so nothing else drops the reference that
            // it was queued with, from `Arc::into_raw()`.
            drop(unsafe { Arc::from_raw(this) });
        }
    }
}

#[vtable]
impl hotplug::Callbacks for Shared {
    fn online(&self, cpu: CpuId) -> Result {
        self.caches.open(cpu.as_u32().into_safe_cast());
        Ok(())
    }

    /// The CPU still runs for a while, but caches nothing any more.
    fn offline(&self, cpu: CpuId) {
        self.caches.close(cpu.as_u32().into_safe_cast());
    }
}

impl Cache {
    /// Creates a cache of ranges of `domain` for all CPUs, with empty depots that follow `policy`.
    ///
    /// Fails with [`ENOMEM`], and with [`EDEADLK`] in a callback of CPU hotplug.
    ///
    /// Context: Process context. May sleep. Takes the CPU hotplug lock. Allocates a lock for each
    /// possible CPU and size, and 1 KiB for each magazine of 126 ranges in use.
    // Not instantiated in other crates: C must call back into this one, which is unloaded last.
    #[inline(never)]
    pub fn new(domain: Arc<Domain>, policy: Policy) -> Result<Self> {
        let caches = Caches::new(domain, policy, PossibleCpus::new)?;
        let shared = Arc::pin_init(
            pin_init!(Shared {
                caches,
                trims: policy.trims(),
                work <- new_delayed_work!("iova::magazine::Cache"),
            }),
            GFP_KERNEL,
        )?;
        let hotplug = hotplug::Registration::new(shared.clone())?;

        // SAFETY: The code is in the library, which is not generic here. The work item may be
        // disabled at any time.
        let teardown = unsafe { teardown::register(shared.clone()) }?;
        Ok(Self {
            shared,
            hotplug: Some(hotplug),
            teardown,
        })
    }

    /// Allocates a range of `size_pfns` page frames, none of them above `limit_pfn`.
    ///
    /// The range starts at a multiple of its size, rounded up to a power of two. If the rounded
    /// size is at most 32, the range takes up the rounded size, and comes from the magazines of
    /// this CPU if they have one.
    ///
    /// Fails with [`EINVAL`] if `size_pfns` is 0, if fewer page frames than the range takes up are
    /// between the domain's first one and `limit_pfn`, or if the limit is above
    /// [`Domain::last_pfn()`]. Fails with [`ENOMEM`] if no gap is large enough, or memory is short.
    /// With [`WhenFull::FlushRcaches`], all cached ranges are freed before that.
    ///
    /// Context: Any context except NMI. Never sleeps.
    #[inline]
    pub fn alloc(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<&Self>> {
        let pfn = self.shared.caches.alloc(size_pfns, limit_pfn, when_full)?;
        // SAFETY: `Caches::alloc()` has just allocated it, and `free()` frees such ranges.
        Ok(unsafe { Range::new(self, pfn, size_pfns) })
    }

    /// Allocates a range that holds a reference to the cache.
    ///
    /// As [`alloc`](Self::alloc) otherwise. Takes a reference to the cache, in a cache line that
    /// all CPUs share.
    ///
    /// Context: As [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_arc(
        self: &Arc<Self>,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<Range<Arc<Self>>> {
        let pfn = self.shared.caches.alloc(size_pfns, limit_pfn, when_full)?;
        // SAFETY: As in `alloc()`.
        Ok(unsafe { Range::new(self.clone(), pfn, size_pfns) })
    }

    /// Returns the event counts.
    ///
    /// Context: Any context. Never sleeps.
    pub fn counts(&self) -> Counts {
        self.shared.caches.counts()
    }

    /// Returns the current contents, which are exact if no other task uses the cache.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the lock of every possible CPU.
    pub fn usage(&self) -> Usage {
        self.shared.caches.usage()
    }
}

impl Free for Cache {
    #[inline]
    unsafe fn free(&self, pfn: usize, size_pfns: usize) {
        // SAFETY: Ranges of a cache are from `Caches::alloc()`, by the safety requirements.
        let is_kept = unsafe { self.shared.caches.free(pfn, size_pfns) };
        if is_kept && self.shared.trims {
            Shared::trim_later(&self.shared);
        }
    }

    #[inline]
    fn domain(&self) -> &Domain {
        self.shared.caches.domain()
    }
}

/// Sleeps. All cached ranges are freed into the domain.
impl Drop for Cache {
    fn drop(&mut self) {
        // In a hotplug callback the registration stays, with its reference to the value.
        drop(self.hotplug.take());
        self.teardown.end();
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_magazine)]
mod tests {
    use super::*;

    use super::super::{
        super::{
            testing::all_of,
            Builder, //
        },
        array::MAGAZINE_SIZE, //
    };

    use crate::{
        percpu::testing::{
            migrate_disable,
            on_all_cpus, //
        },
        testing::leak::forget, //
    };

    use kernel::{
        page::PAGE_SIZE,
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    const LIMIT_PFN: usize = 1 << 20;

    fn domain() -> Result<Arc<Domain>> {
        Ok(Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?)
    }

    /// Allocates and frees enough ranges to fill magazines and move some to the depot.
    fn use_it(cache: &Cache) -> Result {
        for (size_pfns, count) in [(1, 2 * MAGAZINE_SIZE + 1), (3, 10), (40, 10)] {
            // The CPU has no room for all of them.
            free_here(cache, size_pfns, count)?;
        }
        Ok(())
    }

    #[test]
    fn all_cpus_share_the_cache() -> Result {
        for policy in [Policy::FixedDrop, Policy::Adaptive] {
            let domain = domain()?;
            let cache = Arc::new(Cache::new(domain.clone(), policy)?, GFP_KERNEL)?;
            let failures = Arc::new((cache, Atomic::new(0)), GFP_KERNEL)?;

            on_all_cpus(&failures, |(cache, failures)| {
                if use_it(cache).is_err() {
                    failures.add(1, Relaxed);
                }
            })?;
            assert_eq!(failures.1.load(Relaxed), 0);
            let usage = failures.0.usage();
            assert_eq!(usage.ranges, usage.cached);

            drop(failures);
            assert_eq!(all_of(&domain, 400)?.len(), 400);
        }
        Ok(())
    }

    /// Allocates ranges, and frees them on one CPU.
    fn free_here(cache: &Cache, size_pfns: usize, count: usize) -> Result {
        let mut ranges = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            ranges.push(
                cache.alloc(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)?,
                GFP_KERNEL,
            )?;
        }
        let here = migrate_disable();
        ranges.clear();
        drop(here);
        Ok(())
    }

    /// Returns whether the work item that trims the depots is queued, or runs.
    fn is_trim_queued(cache: &Cache) -> bool {
        let this = Arc::as_ptr(&cache.shared).cast_mut();
        // SAFETY: `cache` keeps the value alive.
        let work = unsafe { <Shared as HasWork<Shared>>::raw_get_work(this) };
        // SAFETY: The work item was initialised with the value.
        unsafe { bindings::work_busy(work.cast()) != 0 }
    }

    #[test]
    fn trim_is_queued_for_a_magazine_in_a_depot() -> Result {
        // Policy, size, freed ranges, whether a depot that is trimmed gets a magazine.
        const ROWS: [(Policy, usize, usize, bool); 7] = [
            (Policy::Adaptive, 1, 30, false),
            (Policy::Adaptive, 1, MAGAZINE_SIZE, true),
            (Policy::Trimmed, 1, 2 * MAGAZINE_SIZE, false),
            (Policy::Trimmed, 1, 2 * MAGAZINE_SIZE + 1, true),
            (Policy::Trimmed, 32, 2 * MAGAZINE_SIZE + 1, true),
            // Larger ranges are not cached.
            (Policy::Adaptive, 33, 10, false),
            (Policy::Scaled, 1, 2 * MAGAZINE_SIZE + 1, false),
        ];

        for (policy, size_pfns, count, expected) in ROWS {
            let cache = Cache::new(domain()?, policy)?;
            free_here(&cache, size_pfns, count)?;
            assert_eq!(is_trim_queued(&cache), expected);
        }
        Ok(())
    }

    /// Waits until the work item has nothing left to do.
    #[test]
    fn trimmed_keeps_a_magazine_for_each_online_cpu() -> Result {
        const MAX_POLLS: usize = 6000;
        // SAFETY: Reads a count.
        let online: usize = unsafe { bindings::num_online_cpus() }.into_safe_cast();
        let cache = Cache::new(domain()?, Policy::Trimmed)?;
        free_here(&cache, 1, (2 + online + 2) * MAGAZINE_SIZE)?;
        assert_eq!(cache.usage().depot, online + 2);

        for _ in 0..MAX_POLLS {
            if !is_trim_queued(&cache) {
                break;
            }
            fsleep(Delta::from_millis(10));
        }
        assert!(!is_trim_queued(&cache));
        assert_eq!(cache.usage().depot, online);
        Ok(())
    }

    /// The depot has magazines, so the work item that trims it is queued.
    #[test]
    fn drop_cancels_a_pending_trim() -> Result {
        for policy in [Policy::Trimmed, Policy::Adaptive] {
            let cache = Cache::new(domain()?, policy)?;
            use_it(&cache)?;
            assert!(cache.usage().depot > 0);
            drop(cache);
        }
        Ok(())
    }

    #[test]
    fn trim_is_rearmed_only_if_due() -> Result {
        for (policy, is_looked_at) in [(Policy::Trimmed, false), (Policy::Adaptive, true)] {
            let cache = Cache::new(domain()?, policy)?;
            use_it(&cache)?;
            let depot = cache.usage().depot;
            assert!(depot >= 1);

            // As in the work item, which queues itself again if this returns true.
            assert_eq!(cache.shared.caches.trim(), is_looked_at);
            assert_eq!(cache.usage().depot, depot);
        }
        Ok(())
    }

    /// The end of the hotplug callbacks calls `offline()` for all CPUs.
    #[test]
    fn offline_cpu_flushes_its_magazines() -> Result {
        let mut cache = Cache::new(domain()?, Policy::Adaptive)?;
        use_it(&cache)?;
        let before = cache.usage();
        assert!(before.magazines > before.depot);

        drop(cache.hotplug.take());
        let after = cache.usage();
        assert_eq!(after.magazines, after.depot);
        assert_eq!(after.cached, after.ranges);

        // The CPUs cache nothing.
        drop(cache.alloc(32, LIMIT_PFN, WhenFull::FlushRcaches)?);
        assert_eq!(cache.usage(), after);
        Ok(())
    }

    #[test]
    fn arc_range_keeps_its_cache_alive() -> Result {
        let domain = domain()?;
        let cache = Arc::new(Cache::new(domain.clone(), Policy::Adaptive)?, GFP_KERNEL)?;

        let range = cache.alloc_arc(1, 9, WhenFull::FlushRcaches)?;
        drop(cache);
        assert_eq!(range.space().counts().tree_allocs, 1);
        assert_eq!((range.pfn(), range.addr()), (9, 9 * PAGE_SIZE as u64));
        assert_eq!(all_of(&domain, 9)?.len(), 8);

        drop(range);
        assert_eq!(all_of(&domain, 9)?.len(), 9);
        Ok(())
    }

    #[test]
    fn invalid_ranges_are_rejected() -> Result {
        let cache = Arc::new(Cache::new(domain()?, Policy::Adaptive)?, GFP_KERNEL)?;

        for (size_pfns, limit_pfn) in [(0, 9), (10, 9), (1, 0), (1, usize::MAX)] {
            assert_eq!(
                cache
                    .alloc(size_pfns, limit_pfn, WhenFull::FlushRcaches)
                    .err(),
                Some(EINVAL)
            );
            assert_eq!(
                cache
                    .alloc_arc(size_pfns, limit_pfn, WhenFull::FlushRcaches)
                    .err(),
                Some(EINVAL)
            );
        }
        Ok(())
    }

    #[test]
    fn cache_can_be_leaked() -> Result {
        let cache = Cache::new(domain()?, Policy::Adaptive)?;
        use_it(&cache)?;
        forget(cache)
    }
}
