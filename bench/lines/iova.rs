// SPDX-License-Identifier: GPL-2.0

//! The caches of IOVA ranges and their depot, with the workloads of `samples/iova_storm`.
//!
//! The caches are those of the library, and the workload is that of the sample: this program
//! compiles both sources. An operation on the caches is one turn. CPUs meet at the locks for a few
//! operations of 1000, so waiting for a lock is left out; each lock that is taken is counted.
//!
//! A magazine has the lines that it has in the kernel. A magazine that another CPU uses moves line
//! by line, as its ranges are used. The queues of the ranges that wait for a flush are not modelled
//! in lines: they are the same for all policies.

use std::{
    cell::{
        Cell,
        RefCell, //
    },
    convert::Infallible,
    num::NonZeroUsize,
    ops::{
        Deref,
        DerefMut, //
    }, //
};

use crate::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    flush_queues::{
        FlushQueues,
        NODE_BYTES, //
    },
    machine::{
        self,
        Counts, //
    },
    results::{
        Results,
        Sums, //
    },
    turns,
    workload::{
        Machine,
        Timer,
        Workload, //
    }, //
};

#[path = "../../rust/iommu/iova/magazine/array.rs"]
mod array;
#[path = "../../rust/iommu/iova/magazine/cpu_rcache.rs"]
mod cpu_rcache;
#[path = "../../rust/iommu/iova/magazine/depot.rs"]
mod depot;
#[path = "../../rust/iommu/iova/magazine/policy.rs"]
mod policy;
#[path = "../../rust/iommu/iova/magazine/rcache.rs"]
mod rcache;

use array::{
    Magazine,
    Pfn,
    MAGAZINE_SIZE, //
};
use cpu_rcache::CpuRcache;
use depot::Depot;
use policy::{
    Policy,
    State, //
};
use rcache::{
    Backing,
    CpuRcaches,
    Guarded,
    Rcache, //
};

/// A magazine at an address of its own, as a slab cache has it.
#[repr(align(1024))]
struct Aligned(Magazine);

/// A magazine, each access to which touches its lines: that of its length, and that of the range at
/// its end.
struct MagazineBox(Box<Aligned>);

impl MagazineBox {
    fn new() -> Self {
        let magazine = Box::new(Aligned(Magazine::EMPTY));
        machine::name(&*magazine, "magazines");
        Self(magazine)
    }

    fn touch(&self, writes: bool) {
        machine::access(&*self.0, writes);
        if writes {
            let end = self.0 .0.len().saturating_sub(1).min(MAGAZINE_SIZE - 1);
            // The link and the length come first.
            let offset = (2 + end) * size_of::<usize>() / machine::LINE_BYTES * machine::LINE_BYTES;
            // SAFETY: The offset is within the magazine.
            machine::access(
                unsafe { &*(&raw const *self.0).byte_add(offset).cast::<u8>() },
                true,
            );
        }
    }
}

impl Deref for MagazineBox {
    type Target = Magazine;

    fn deref(&self) -> &Magazine {
        self.touch(false);
        &self.0 .0
    }
}

impl DerefMut for MagazineBox {
    fn deref_mut(&mut self) -> &mut Magazine {
        self.touch(true);
        &mut self.0 .0
    }
}

impl Drop for MagazineBox {
    fn drop(&mut self) {
        machine::forget(&*self.0);
    }
}

/// Counts of locks, since the last look.
#[derive(Clone, Copy, Default)]
struct Locks {
    depot: usize,
    /// Locks of other CPUs than the current one.
    others: usize,
}

thread_local! {
    static LOCKS: Cell<Locks> = Cell::default();
}

fn count(f: impl FnOnce(&mut Locks)) {
    let mut locks = LOCKS.get();
    f(&mut locks);
    LOCKS.set(locks);
}

/// A lock, and what it protects, in one line.
#[repr(align(64))]
struct Line<T> {
    word: Atomic<usize>,
    value: RefCell<T>,
}

impl<T> Line<T> {
    fn new(value: T, name: &'static str) -> Box<Self> {
        let line = Box::new(Self {
            word: Atomic::new(0),
            value: RefCell::new(value),
        });
        machine::name(&*line, name);
        line
    }

    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // Takes the lock, changes the value, and returns the lock.
        self.word.store(1, Relaxed);
        f(&mut self.value.borrow_mut())
    }
}

/// The slot of a CPU.
struct Slot {
    cpu: usize,
    line: Box<Line<CpuRcache>>,
}

impl Guarded for Slot {
    type Value = CpuRcache;

    fn with<R>(&self, f: impl FnOnce(&mut CpuRcache) -> R) -> R {
        if self.cpu != turns::cpu() {
            count(|locks| locks.others += 1);
        }
        self.line.with(f)
    }
}

/// A pointer to the slots, as a field of the cache.
struct Slots(Box<Vec<Slot>>);

impl CpuRcaches for Slots {
    type Lock = Slot;

    fn current(&self) -> &Slot {
        machine::access(self, false);
        &self.0[turns::cpu()]
    }

    fn slot(&self, cpu: usize) -> Option<&Slot> {
        machine::access(self, false);
        self.0.get(cpu)
    }

    fn cpus(&self) -> usize {
        self.0.len()
    }

    fn online(&self) -> usize {
        self.0.len()
    }
}

/// A pointer to the depot, as a field of the cache.
struct BoxedDepot(Box<Line<Depot<State>>>);

impl Guarded for BoxedDepot {
    type Value = Depot<State>;

    fn with<R>(&self, f: impl FnOnce(&mut Depot<State>) -> R) -> R {
        machine::access(self, false);
        count(|locks| locks.depot += 1);
        self.0.with(f)
    }
}

type Cache = Rcache<Slots, BoxedDepot>;

/// Creates the caches of all sizes, next to each other as in the kernel.
fn caches(policy: Policy, load: &Workload) -> Vec<Cache> {
    let caches: Vec<_> = (0..load.sizes)
        .map(|_| {
            let slots = (0..load.cpus).map(|cpu| Slot {
                cpu,
                line: Line::new(CpuRcache::new(), "slots"),
            });
            let depot = Line::new(Depot::new(policy.state(load.cpus)), "depots");
            Rcache::new(
                Slots(Box::new(slots.collect())),
                BoxedDepot(depot),
                policy.returns_surplus(),
            )
        })
        .collect();
    caches
        .iter()
        .for_each(|cache| machine::name(cache, "caches"));
    caches
}

/// The tree: its lock and its root in one line. Nodes are not modelled.
struct Tree {
    line: Box<Line<()>>,
    allocs: Cell<usize>,
    frees: Cell<usize>,
}

impl Tree {
    fn alloc(&self) -> Pfn {
        self.line.with(|()| ());
        self.allocs.set(self.allocs.get() + 1);
        // SAFETY: There was none before.
        unsafe { Pfn::new(NonZeroUsize::new(self.allocs.get()).unwrap()) }
    }

    fn ops(&self) -> usize {
        self.allocs.get() + self.frees.get()
    }
}

impl Backing for Tree {
    fn magazine(&self) -> Option<MagazineBox> {
        Some(MagazineBox::new())
    }

    fn free(&self, pfn: Pfn) {
        self.line.with(|()| ());
        self.frees.set(self.frees.get() + 1);
        let _ = pfn.into_inner();
    }
}

struct Storm<'a> {
    load: &'a Workload,
    caches: Vec<Cache>,
    tree: Tree,
    queues: FlushQueues<Pfn>,
    results: Results,
    has_begun: bool,
    /// The memory at the end of a period, in bytes.
    bytes: usize,
}

impl Storm<'_> {
    fn sums(&self) -> Sums {
        Sums {
            tree_allocs: self.tree.allocs.get(),
            tree_frees: self.tree.frees.get(),
        }
    }
}

impl Machine for Storm<'_> {
    type Error = Infallible;

    fn io(&mut self, cpu: usize, order: usize, freed_on: usize) -> Result<(), Infallible> {
        turns::be_on(cpu);
        let pfn = self.caches[order].get(usize::MAX);
        let pfn = pfn.unwrap_or_else(|| self.tree.alloc());

        turns::be_on(freed_on);
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
        turns::be_on(cpu);
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
        let locks = LOCKS.get();
        let (sums, longest) = machine::unseen(|| {
            let magazines: usize = self.caches.iter().map(|cache| cache.count().0).sum();
            let ranges = self.tree.allocs.get() - self.tree.frees.get();
            self.bytes = magazines * size_of::<Magazine>() + ranges * NODE_BYTES;
            let longest = self.caches.iter().map(|cache| {
                let mut longest = 0;
                cache.depot().with(|depot| longest = depot.take_longest());
                longest
            });
            (self.sums(), longest.sum())
        });
        LOCKS.set(locks);
        self.results
            .observe(self.load, period, sums, self.bytes, longest);
        if period >= self.load.half() && !self.has_begun {
            self.has_begun = true;
            machine::take_counts();
            LOCKS.take();
        }
    }
}

/// The results of a workload. Counts cover the second half of the periods.
struct Found {
    results: Results,
    counts: Counts,
    locks: Locks,
    /// The memory at the end, in bytes.
    bytes: usize,
}

fn run(load: &Workload, policy: Policy) -> Found {
    machine::start();
    LOCKS.take();
    let mut storm = Storm {
        load,
        caches: caches(policy, load),
        tree: Tree {
            line: Line::new((), "tree"),
            allocs: Cell::new(0),
            frees: Cell::new(0),
        },
        queues: FlushQueues::new(load.cpus),
        results: Results::default(),
        has_begun: false,
        bytes: 0,
    };
    let Ok(()) = load.run(&mut storm);
    let (counts, locks) = (machine::take_counts(), LOCKS.take());
    Found {
        results: storm.results,
        counts,
        locks,
        bytes: storm.bytes,
    }
}

/// The column of a policy.
const fn name(policy: Policy) -> &'static str {
    match policy {
        Policy::FixedDrop => "fixed_drop",
        Policy::FixedFlush => "fixed_flush",
        Policy::Scaled => "scaled",
        Policy::Trimmed => "trimmed",
        Policy::Adaptive => "adaptive",
    }
}

/// A number of the tables, for 1000 I/Os.
fn per_1000(count: usize, found: &Found) -> f64 {
    count as f64 * 1000.0 / found.results.ios as f64
}

fn cell(table: &str, row: &str, policy: Policy, number: f64) {
    println!("result {table} {row} {} {number:.3}", name(policy));
}

/// Prints the results of a workload.
fn measure(load: &Workload, row: &str, policy: Policy) {
    let found = run(load, policy);
    let ops = found.results.sums.tree_ops();

    cell("tree_ops", row, policy, per_1000(ops, &found));
    cell(
        "depot_locks",
        row,
        policy,
        per_1000(found.locks.depot, &found),
    );
    cell(
        "other_locks",
        row,
        policy,
        per_1000(found.locks.others, &found),
    );
    cell(
        "transfers",
        row,
        policy,
        per_1000(found.counts.transfers, &found),
    );
    cell(
        "memory",
        row,
        policy,
        found.results.peak_bytes.div_ceil(1024) as f64,
    );
}

/// Prints the depot over time, and returns the results.
fn measure_depot(load: &Workload, table: &str, policy: Policy) -> Found {
    let found = run(load, policy);

    for (slice, longest) in found.results.depot.iter().enumerate() {
        cell(table, &slice.to_string(), policy, *longest as f64);
    }
    found
}

/// Hundredths of I/Os elsewhere while the timer walks one queue.
const WALKS: [usize; 6] = [0, 50, 100, 200, 400, 800];

/// Prints the results of all workloads and policies.
pub(crate) fn measure_all(quick: bool) {
    let shorter = |periods| if quick { periods / 8 } else { periods };

    for policy in Policy::ALL {
        for (cpus, sizes) in [16, 64, 256]
            .into_iter()
            .flat_map(|cpus| [(cpus, 1), (cpus, 6)])
        {
            // Each CPU runs the timer several times.
            let load = Workload {
                cpus,
                sizes,
                periods: shorter(800),
                ..Workload::MAIL
            };
            measure(&load, &format!("{cpus}_cpus_{sizes}"), policy);
        }
        for (cpus, walk) in [64, 256]
            .into_iter()
            .flat_map(|cpus| WALKS.map(|walk| (cpus, walk)))
        {
            let load = Workload {
                cpus,
                walk: Some(walk),
                periods: shorter(160),
                ..Workload::MAIL
            };
            let found = run(&load, policy);
            let row = format!("{cpus}_cpus_{}.{}", walk / 100, walk % 100 / 10);
            let ops = found.results.sums.tree_ops();
            cell("walk", &row, policy, per_1000(ops, &found));
        }
        measure_depot(&Workload::MAIL, "depot_over_time", policy);
        let burst = Workload {
            timer: Timer::Once,
            ..Workload::MAIL
        };
        let found = measure_depot(&burst, "depot_after_burst", policy);
        let disturbed = found.results.recovery.disturbed_ios();
        cell("recovery", "64_cpus_1", policy, disturbed as f64);
        measure_pause(policy);
        measure_windows(policy, quick);
    }
}

/// Prints the operations on the tree and the memory after several windows of `adaptive`.
fn measure_windows(policy: Policy, quick: bool) {
    let steady = Workload {
        cpus: 16,
        periods: if quick { 990 } else { 9900 },
        ..Workload::MAIL
    };
    // A pause is longer than a window, so I/O begins again while the surplus is being freed.
    let pauses = Workload {
        busy: 1600,
        pause: 4800,
        periods: if quick { 1280 } else { 12_800 },
        ..steady
    };
    for (row, load) in [("steady", steady), ("pauses", pauses)] {
        let found = run(&load, policy);
        let ops = found.results.sums.tree_ops();
        cell("windows_tree_ops", row, policy, ops as f64);
        let kib = found.bytes.div_ceil(1024);
        cell("windows_memory", row, policy, kib as f64);
    }
}

/// Prints the memory after a pause of three windows of `adaptive`.
fn measure_pause(policy: Policy) {
    let usual = Workload {
        busy: 100,
        pause: 9900,
        periods: 9900,
        ..Workload::MAIL
    };
    // Full queues, and a timer that frees them all into one CPU: more magazines than two for each
    // CPU.
    let much = Workload {
        ops: (250, 250),
        walk: Some(0),
        ..usual
    };
    for (row, load) in [("usual", usual), ("much", much)] {
        let found = run(&load, policy);
        cell(
            "after_pause",
            row,
            policy,
            found.bytes.div_ceil(1024) as f64,
        );
    }
}
