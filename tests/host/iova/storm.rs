// SPDX-License-Identifier: GPL-2.0

//! A model of the workload of `samples/iova_storm`.

use std::{
    convert::Infallible,
    sync::atomic::Ordering::Relaxed, //
};

use crate::{
    flush_queues::{
        FlushQueues,
        NODE_BYTES, //
    },
    results::{
        Results,
        Sums, //
    },
    workload::{
        Machine,
        Workload, //
    }, //
};

use super::{
    array::{
        Magazine,
        Pfn, //
    },
    policy::Policy,
    rcache::Guarded,
    tree::{
        cache,
        Cache,
        Tree,
        CPU, //
    }, //
};

struct Storm<'a> {
    load: &'a Workload,
    caches: Vec<Cache>,
    tree: Tree,
    queues: FlushQueues<Pfn>,
    results: Results,
}

impl Storm<'_> {
    /// Returns the memory of magazines and nodes.
    fn bytes(&self) -> usize {
        let magazines: usize = self.caches.iter().map(|cache| cache.count().0).sum();
        magazines * size_of::<Magazine>() + self.tree.ranges() * NODE_BYTES
    }

    fn sums(&self) -> Sums {
        Sums {
            tree_allocs: self.tree.allocs.load(Relaxed),
            tree_frees: self.tree.frees.load(Relaxed),
        }
    }
}

impl Machine for Storm<'_> {
    type Error = Infallible;

    fn io(&mut self, cpu: usize, order: usize, freed_on: usize) -> Result<(), Infallible> {
        CPU.set(cpu);
        let pfn = self.caches[order].get(usize::MAX);
        let pfn = pfn.unwrap_or_else(|| self.tree.alloc());

        CPU.set(freed_on);
        self.queues.queue(freed_on, order, pfn, |order, pfn| {
            self.caches[order].put(pfn, &self.tree);
        });
        self.results.on_io(|| self.tree.ops());
        Ok(())
    }

    fn timer(&mut self, _cpu: usize) {
        self.results.on_timer(self.load, self.tree.ops());
        self.queues.flush();
    }

    fn walk(&mut self, cpu: usize, queue: usize) -> Result<(), Infallible> {
        CPU.set(cpu);
        self.queues.free_flushed(queue, |order, pfn| {
            self.caches[order].put(pfn, &self.tree);
        });
        Ok(())
    }

    fn trim(&mut self) {
        for cache in &self.caches {
            cache.trim(&self.tree);
        }
    }

    fn observe(&mut self, period: u32) {
        let bytes = self.bytes();
        let longest = self.caches.iter().map(|cache| {
            let mut longest = 0;
            cache.depot().with(|depot| longest = depot.take_longest());
            longest
        });
        let (sums, longest) = (self.sums(), longest.sum());
        self.results
            .observe(self.load, period, sums, bytes, longest);
    }
}

pub(super) fn run(load: &Workload, policy: Policy) -> Results {
    run_storm(load, policy).results
}

/// Returns the memory at the end of a workload, in bytes.
pub(super) fn end(load: &Workload, policy: Policy) -> usize {
    run_storm(load, policy).bytes()
}

fn run_storm(load: &Workload, policy: Policy) -> Storm<'_> {
    let mut storm = Storm {
        load,
        caches: (0..load.sizes).map(|_| cache(policy, load.cpus)).collect(),
        tree: Tree::default(),
        queues: FlushQueues::new(load.cpus),
        results: Results::default(),
    };
    let Ok(()) = load.run(&mut storm);
    storm
}

/// Runs a workload with each policy.
pub(crate) fn run_all(load: &Workload) -> Vec<(Policy, Results)> {
    Policy::ALL.map(|policy| (policy, run(load, policy))).into()
}
