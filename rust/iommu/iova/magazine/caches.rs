// SPDX-License-Identifier: GPL-2.0

//! A domain with a cache for each size, generic over the CPUs.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    new_spinlock_irq,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use core::{
    array,
    mem,
    num::NonZeroUsize, //
};

use super::{
    super::{
        cached::WhenFull,
        domain::{
            Alignment,
            Domain, //
        }, //
    },
    array::{
        Magazine,
        Pfn, //
    },
    cpus::BoxedLock,
    depot::Depot,
    policy::{
        Policy,
        State, //
    },
    rcache::{
        Backing,
        CpuRcaches,
        Guarded,
        Rcache, //
    },
    MagazineBox, //
};

/// The number of cached sizes: 1, 2, 4, 8, 16, 32 page frames. C: `IOVA_RANGE_CACHE_MAX_SIZE`.
pub(super) const ORDERS: usize = 6;

/// Event counts since a cache was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ranges allocated from the tree, as no cache had one.
    pub tree_allocs: usize,
    /// Ranges freed into the tree.
    pub tree_frees: usize,
}

/// The current contents of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Ranges in the tree that were allocated through the cache, both in use and cached.
    pub ranges: usize,
    /// Cached ranges.
    pub cached: usize,
    /// Magazines, including empty ones.
    pub magazines: usize,
    /// Magazines in the depots of all sizes.
    pub depot: usize,
}

impl Usage {
    /// The size of C's node of a range, in a slab cache with cache-line alignment.
    const NODE_BYTES: usize = 64;

    /// Returns the memory of the magazines and of the nodes of the tree, in bytes, at most
    /// [`usize::MAX`].
    ///
    /// Context: Any context. Never sleeps.
    pub fn bytes(&self) -> usize {
        let nodes = self.ranges.saturating_mul(Self::NODE_BYTES);
        nodes.saturating_add(self.magazines.saturating_mul(mem::size_of::<Magazine>()))
    }
}

/// The tree, and counts of its allocations and frees.
struct Tree {
    domain: Arc<Domain>,
    allocs: Atomic<usize>,
    frees: Atomic<usize>,
}

impl Backing for Tree {
    // Not inlined: the temporary magazine must not stay in the caller's stack frame.
    #[inline(never)]
    fn magazine(&self) -> Option<MagazineBox> {
        let memory = KBox::<Magazine>::new_uninit(GFP_ATOMIC | __GFP_NOWARN).ok()?;
        Some(KBox::write(memory, Magazine::EMPTY))
    }

    fn free(&self, pfn: Pfn) {
        self.frees.add(1, Relaxed);
        // SAFETY: By the invariants of `Pfn` it is the start of an allocated range, which nothing
        // else frees. By those of `Caches` it is from this domain.
        unsafe { self.domain.free_pfn(pfn.into_inner().get()) };
    }
}

/// Creates an empty depot. Not generic, as each instance would have its own lock class.
fn depot(policy: Policy, cpus: usize) -> Result<BoxedLock<Depot<State>>> {
    let depot = Depot::new(policy.state(cpus));
    KBox::pin_init(
        new_spinlock_irq!(depot, "iova::magazine::Depot"),
        GFP_KERNEL,
    )
}

/// A domain, and a cache for each size.
///
/// # Invariants
///
/// The ranges in `rcaches[n]` are from the domain in `tree`, and have 2^n page frames.
pub(super) struct Caches<S: CpuRcaches> {
    rcaches: KVec<Rcache<S, BoxedLock<Depot<State>>>>,
    tree: Tree,
}

impl<S: CpuRcaches> Caches<S> {
    /// Creates empty caches, with the CPUs that `slots` returns.
    pub(super) fn new(
        domain: Arc<Domain>,
        policy: Policy,
        mut slots: impl FnMut() -> Result<S>,
    ) -> Result<Self> {
        let mut rcaches = KVec::with_capacity(ORDERS, GFP_KERNEL)?;
        for _ in 0..ORDERS {
            let slots = slots()?;
            let depot = depot(policy, slots.cpus())?;
            let rcache = Rcache::new(slots, depot, policy.returns_surplus());
            rcaches.push(rcache, GFP_KERNEL)?;
        }
        // INVARIANT: They are empty.
        Ok(Self {
            rcaches,
            tree: Tree {
                domain,
                allocs: Atomic::new(0),
                frees: Atomic::new(0),
            },
        })
    }

    /// Returns the domain.
    pub(super) fn domain(&self) -> &Domain {
        &self.tree.domain
    }

    /// Returns the rounded size and the index of its cache. C: `alloc_iova_fast()`.
    #[inline]
    fn rounded(size_pfns: usize) -> (usize, usize) {
        if size_pfns > 1 << (ORDERS - 1) {
            return (size_pfns, ORDERS);
        }
        let taken_pfns = size_pfns.next_power_of_two();
        // CAST: At most 6.
        (taken_pfns, taken_pfns.trailing_zeros() as usize)
    }

    /// Allocates `size_pfns` page frames, rounded up. [`free()`](Self::free) frees them.
    #[inline]
    pub(super) fn alloc(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<NonZeroUsize> {
        let (taken_pfns, order) = Self::rounded(size_pfns);
        if size_pfns == 0 {
            return Err(EINVAL);
        }
        self.domain().check(taken_pfns, limit_pfn)?;

        if let Some(rcache) = self.rcaches.get(order) {
            // OVERFLOW: `check()` ensures that the range fits below the limit.
            if let Some(pfn) = rcache.get(limit_pfn - (taken_pfns - 1)) {
                return Ok(pfn.into_inner());
            }
        }
        self.alloc_from_tree(taken_pfns, limit_pfn, when_full)
    }

    /// Allocates from the tree. If that fails, frees all cached ranges and retries if told to.
    fn alloc_from_tree(
        &self,
        taken_pfns: usize,
        limit_pfn: usize,
        when_full: WhenFull,
    ) -> Result<NonZeroUsize> {
        let alloc = || {
            self.domain()
                .alloc_pfn(taken_pfns, limit_pfn, Alignment::Size)
        };

        let pfn = alloc().or_else(|error| match when_full {
            WhenFull::Fail => Err(error),
            WhenFull::FlushRcaches => {
                self.flush();
                alloc()
            }
        })?;
        self.tree.allocs.add(1, Relaxed);
        Ok(pfn)
    }

    /// Frees a range, and returns whether the depot received a magazine.
    ///
    /// # Safety
    ///
    /// The range must be from [`alloc()`](Self::alloc) with that size, and the caller must own it.
    #[inline]
    pub(super) unsafe fn free(&self, pfn: usize, size_pfns: usize) -> bool {
        let (_, order) = Self::rounded(size_pfns);
        let Some(pfn) = NonZeroUsize::new(pfn) else {
            // `alloc()` never returns 0.
            return false;
        };
        // SAFETY: By the safety requirements.
        let pfn = unsafe { Pfn::new(pfn) };
        match self.rcaches.get(order) {
            // INVARIANT: It is from this domain, and of the size of this cache.
            Some(rcache) => rcache.put(pfn, &self.tree),
            None => {
                self.tree.free(pfn);
                false
            }
        }
    }

    /// Frees the surplus of the policy, and returns whether to call this again.
    pub(super) fn trim(&self) -> bool {
        let mut is_due = false;
        for rcache in &self.rcaches {
            is_due |= rcache.trim(&self.tree);
        }
        is_due
    }

    /// Frees all cached ranges.
    pub(super) fn flush(&self) {
        for rcache in &self.rcaches {
            rcache.flush_cpus(&self.tree);
            rcache.flush_depot(&self.tree);
        }
    }

    /// Frees the ranges of a CPU, which caches nothing until [`open()`](Self::open).
    pub(super) fn close(&self, cpu: usize) {
        for rcache in &self.rcaches {
            rcache.close(cpu, &self.tree);
        }
    }

    /// Enables caching on a CPU.
    pub(super) fn open(&self, cpu: usize) {
        for rcache in &self.rcaches {
            rcache.open(cpu);
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            tree_allocs: self.tree.allocs.load(Relaxed),
            tree_frees: self.tree.frees.load(Relaxed),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let counts = self.counts();
        let mut usage = Usage {
            ranges: counts.tree_allocs.saturating_sub(counts.tree_frees),
            ..Usage::default()
        };
        for rcache in &self.rcaches {
            let (magazines, cached) = rcache.count();
            usage.magazines += magazines;
            usage.cached += cached;
            usage.depot += rcache.depot().with(|depot| depot.len());
        }
        usage
    }

    /// Returns the number of ranges in the depots.
    #[cfg(kscale_kunit)]
    pub(super) fn depot_ranges(&self) -> usize {
        self.rcaches
            .iter()
            .map(|rcache| rcache.depot().with(|depot| depot.ranges()))
            .sum()
    }

    /// Returns the maximum number of magazines in the depot of each size since the last call.
    pub(super) fn take_longest(&self) -> [usize; ORDERS] {
        array::from_fn(|order| {
            self.rcaches.get(order).map_or(0, |rcache| {
                rcache.depot().with(|depot| depot.take_longest())
            })
        })
    }
}

impl<S: CpuRcaches> Drop for Caches<S> {
    fn drop(&mut self) {
        self.flush();
    }
}
