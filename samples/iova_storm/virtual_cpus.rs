// SPDX-License-Identifier: GPL-2.0

//! Runs a workload on virtual CPUs with their own flush queues.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    task::might_sleep, //
};

use kscale::iommu::iova::{
    flush_queue::{
        Counters,
        Ring, //
    },
    magazine::{
        Policy,
        VirtualCache, //
    },
    Builder,
    Range,
    WhenFull, //
};

use super::{
    results::{
        Results,
        Sums, //
    },
    workload::{
        Machine,
        Workload, //
    }, //
};

/// Limit of the ranges, far above what the workload allocates.
const LIMIT_PFN: usize = 1 << 40;

/// The unmapped ranges of a virtual CPU that wait for the IOTLB flush.
type Queue<'a> = Ring<Range<&'a VirtualCache>>;

struct Storm<'a> {
    load: &'a Workload,
    cache: &'a VirtualCache,
    queues: KVec<KBox<Queue<'a>>>,
    flushes: Counters,
    results: Results,
}

/// Returns the counts so far.
fn sums(cache: &VirtualCache) -> Sums {
    let counts = cache.counts();
    Sums {
        tree_allocs: counts.tree_allocs,
        tree_frees: counts.tree_frees,
    }
}

impl Machine for Storm<'_> {
    type Error = Error;

    fn io(&mut self, cpu: usize, order: usize, freed_on: usize) -> Result {
        self.cache.run_on(cpu)?;
        let range = self
            .cache
            .alloc(1 << order, LIMIT_PFN, WhenFull::FlushRcaches)?;

        self.cache.run_on(freed_on)?;
        let queue = self.queues.get_mut(freed_on).ok_or(EINVAL)?;
        queue.queue(range, &self.flushes, || (), drop);
        self.results.on_io(|| sums(self.cache).tree_ops());
        Ok(())
    }

    fn timer(&mut self, _cpu: usize) {
        self.results
            .on_timer(self.load, sums(self.cache).tree_ops());
        self.flushes.flush(|| ());
    }

    /// Frees the queued ranges of a CPU on the CPU of the timer, into its caches.
    fn walk(&mut self, cpu: usize, queue: usize) -> Result {
        self.cache.run_on(cpu)?;
        let queue = self.queues.get_mut(queue).ok_or(EINVAL)?;
        queue.free_flushed(&self.flushes, drop);
        Ok(())
    }

    fn trim(&mut self) {
        self.cache.trim();
    }

    fn observe(&mut self, period: u32) {
        let usage = self.cache.usage();
        let depot = self.cache.take_longest().iter().sum();

        self.results
            .observe(self.load, period, sums(self.cache), usage.bytes(), depot);
        might_sleep();
    }
}

/// Runs a workload with a policy and returns the results.
pub(crate) fn run(load: &Workload, policy: Policy) -> Result<Results> {
    let domain = Arc::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?;
    let cache = VirtualCache::new(domain, policy, load.cpus)?;
    let mut queues = KVec::with_capacity(load.cpus, GFP_KERNEL)?;
    for _ in 0..load.cpus {
        queues.push(KBox::init(Ring::new(), GFP_KERNEL)?, GFP_KERNEL)?;
    }
    let mut storm = Storm {
        load,
        cache: &cache,
        queues,
        flushes: Counters::new(),
        results: Results::default(),
    };

    load.run(&mut storm)?;
    Ok(storm.results)
}
