// SPDX-License-Identifier: GPL-2.0

//! Runs tasks on real CPUs, to measure the cost of locks.

use kernel::{
    impl_has_work,
    new_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    task::might_sleep,
    time::{
        delay::fsleep,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    iommu::iova::{
        flush_queue::{
            FlushQueue,
            Iotlb, //
        },
        magazine::Cache,
        Alignment,
        Builder,
        CachedDomain,
        Domain,
        Range,
        Space,
        WhenFull, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::{
    load::{
        Load,
        Way, //
    },
    results::Sums, //
};

/// Limit of the ranges, far above what the tasks allocate.
const LIMIT_PFN: usize = 1 << 40;

/// An IOTLB whose flush takes no time.
struct NoIotlb;

#[vtable]
impl Iotlb for NoIotlb {
    fn flush_all(&self) {}
}

/// An allocator of ranges.
trait Source: Space + Sized + 'static {
    fn alloc(&self, size_pfns: usize) -> Result<Range<&Self>>;

    /// Returns the counts so far, if the allocator has counters.
    fn sums(&self) -> Sums {
        Sums::default()
    }
}

impl Source for Domain {
    fn alloc(&self, size_pfns: usize) -> Result<Range<&Self>> {
        Domain::alloc(self, size_pfns, LIMIT_PFN, Alignment::Size)
    }
}

impl Source for CachedDomain {
    fn alloc(&self, size_pfns: usize) -> Result<Range<&Self>> {
        self.alloc_fast(size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)
    }
}

impl Source for Cache {
    fn alloc(&self, size_pfns: usize) -> Result<Range<&Self>> {
        Cache::alloc(self, size_pfns, LIMIT_PFN, WhenFull::FlushRcaches)
    }

    fn sums(&self) -> Sums {
        let counts = self.counts();
        Sums {
            tree_allocs: counts.tree_allocs,
            tree_frees: counts.tree_frees,
        }
    }
}

/// A task that allocates and queues ranges until `stop` is set.
#[pin_data]
struct Worker<S: Source> {
    queue: Arc<FlushQueue<S, NoIotlb>>,
    load: Load,
    stop: Arc<Atomic<bool>>,
    ios: Atomic<usize>,
    failures: Atomic<usize>,
    #[pin]
    work: Work<Worker<S>>,
}

impl_has_work! {
    impl{S: Source} HasWork<Self> for Worker<S> { self.work }
}

impl<S: Source> WorkItem for Worker<S> {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let mut order = 0;

        loop {
            for _ in 0..100 {
                // OVERFLOW: Less than 6.
                order = if order + 1 < this.load.sizes {
                    order + 1
                } else {
                    0
                };
                let range = this.queue.space().alloc(1 << order);
                match range.map(|range| this.queue.queue(range)) {
                    Ok(Ok(())) => this.ios.add(1, Relaxed),
                    Ok(Err(_)) | Err(_) => this.failures.add(1, Relaxed),
                }
            }
            // A task that starts late allocates, too.
            if this.stop.load(Relaxed) {
                break;
            }
            might_sleep();
        }
    }
}

/// The results of a load.
#[derive(Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) ios: usize,
    /// Allocations that failed.
    pub(crate) failures: usize,
    pub(crate) elapsed_ns: i64,
    pub(crate) sums: Sums,
}

/// Runs tasks that allocate in the given way, for the duration in `load`.
pub(crate) fn run(load: &Load, way: Way) -> Result<Measured> {
    let domain = Builder::new(PAGE_SIZE, 1)?.build();
    match way {
        Way::Tree => run_tasks(load, domain),
        Way::Rcaches => run_tasks(load, domain.init_rcaches()?),
        Way::Magazines(policy) => {
            run_tasks(load, Cache::new(Arc::new(domain, GFP_KERNEL)?, policy)?)
        }
    }
}

fn run_tasks<S: Source>(load: &Load, source: S) -> Result<Measured> {
    let source = Arc::new(source, GFP_KERNEL)?;
    let iotlb = Arc::new(NoIotlb, GFP_KERNEL)?;
    let queue = Arc::new(FlushQueue::new(source.clone(), iotlb)?, GFP_KERNEL)?;
    let stop = Arc::new(Atomic::new(false), GFP_KERNEL)?;
    let mut workers = KVec::with_capacity(load.tasks, GFP_KERNEL)?;
    for _ in 0..load.tasks {
        let (queue, stop) = (queue.clone(), stop.clone());
        let worker = Arc::pin_init(
            pin_init!(Worker {
                queue,
                load: *load,
                stop,
                ios: Atomic::new(0),
                failures: Atomic::new(0),
                work <- new_work!("iova_storm::Worker"),
            }),
            GFP_KERNEL,
        )?;
        workers.push(worker, GFP_KERNEL)?;
    }
    let tasks = u32::try_from(load.tasks)?;
    let work = Workqueue::new(c"iova_storm", Flags::UNBOUND, tasks)?;

    let start = Instant::<Monotonic>::now();
    for worker in &workers {
        // The workers were not queued before.
        let _ = work.enqueue(worker.clone());
    }
    fsleep(Delta::from_millis(load.ms));
    stop.store(true, Relaxed);
    // Waits for the workers.
    drop(work);

    let sum = |count: fn(&Worker<S>) -> &Atomic<usize>| -> usize {
        workers
            .iter()
            .map(|worker| count(worker).load(Relaxed))
            .sum()
    };
    Ok(Measured {
        ios: sum(|worker| &worker.ios),
        failures: sum(|worker| &worker.failures),
        elapsed_ns: start.elapsed().as_nanos(),
        sums: source.sums(),
    })
}
