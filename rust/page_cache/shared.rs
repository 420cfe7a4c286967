// SPDX-License-Identifier: GPL-2.0

//! What a cache shares with its work item and its shrinker.

use kernel::{
    cpu::CpuId,
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        Instant,
        Monotonic,
        Msecs,
        NSEC_PER_MSEC, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use crate::{
    bindings,
    gfp::Gfp,
    page::Page,
    percpu::PerCpu,
    shrinker::{
        Callbacks,
        Count,
        Scan,
        ScanControl,
        ShrinkControl, //
    }, //
};

use super::{
    cpus::{
        self,
        CpuPages,
        MAX_PAGES, //
    },
    filler, //
};

/// How many pages a [`PageCache`](super::PageCache) keeps.
///
/// The default is what `kvfree_rcu()` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pages of each CPU, at least 1 and at most
    /// [`PageCache::MAX_PAGES_PER_CPU`](super::PageCache::MAX_PAGES_PER_CPU).
    pub pages_per_cpu: usize,
    /// How many of them the shrinker leaves. With as many as there are, it never frees any.
    pub floor_per_cpu: usize,
    /// How long nothing is filled after memory was short, in milliseconds.
    pub backoff_ms: Msecs,
}

impl Options {
    /// Tells whether there can be such a cache.
    fn are_valid(&self) -> bool {
        (1..=MAX_PAGES).contains(&self.pages_per_cpu) && self.floor_per_cpu <= self.pages_per_cpu
    }
}

impl Default for Options {
    fn default() -> Self {
        // `rcu_min_cached_objs` and `rcu_delay_page_cache_fill_msec` in `mm/slab_common.c`.
        Self {
            pages_per_cpu: 5,
            floor_per_cpu: 0,
            backoff_ms: 5000,
        }
    }
}

/// What a [`PageCache`](super::PageCache) did without being given a page, or asked for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pages that were allocated to fill it.
    pub filled: u64,
    /// Pages that the shrinker freed, or [`drain()`](super::PageCache::drain).
    pub freed: u64,
}

/// Flags as in `fill_page_cache_func()` in `mm/slab_common.c`: to go without is always possible.
const FILL: Gfp = Gfp::KERNEL
    .union(Gfp::NORETRY)
    .union(Gfp::NOMEMALLOC)
    .union(Gfp::NOWARN);

/// What a cache shares with its work item and its shrinker.
#[pin_data]
pub(super) struct Shared {
    cpus: PerCpu<CpuPages>,
    options: Options,
    filled: Atomic<u64>,
    freed: Atomic<u64>,
    /// What `backoff_end_ns` counts from.
    made: Instant<Monotonic>,
    /// Until when nothing is filled.
    backoff_end_ns: Atomic<i64>,
    /// Nobody will ask for what is filled.
    is_closed: AtomicFlag,
    #[pin]
    work: Work<Shared>,
}

impl_has_work! {
    impl HasWork<Self> for Shared { self.work }
}

impl Shared {
    /// Creates slots, all of them empty.
    ///
    /// Fails with [`EINVAL`] and [`ENOMEM`].
    pub(super) fn new(options: Options) -> Result<Arc<Self>> {
        if !options.are_valid() {
            return Err(EINVAL);
        }
        Arc::pin_init(
            try_pin_init!(Self {
                cpus: cpus::new()?,
                options,
                filled: Atomic::new(0),
                freed: Atomic::new(0),
                made: Instant::now(),
                backoff_end_ns: Atomic::new(0),
                is_closed: AtomicFlag::new(false),
                work <- new_work!("kscale::page_cache"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            filled: self.filled.load(Relaxed),
            freed: self.freed.load(Relaxed),
        }
    }

    /// Returns the pages of the CPU that the task runs on.
    #[inline]
    pub(super) fn here(&self) -> &CpuPages {
        self.cpus.raw_cpu()
    }

    /// Returns the pages of a CPU if there is such a one.
    pub(super) fn of_cpu(&self, cpu: CpuId) -> Option<&CpuPages> {
        self.cpus.per_cpu(cpu)
    }

    /// Puts a page into a slot of a CPU.
    #[inline]
    pub(super) fn put(&self, pages: &CpuPages, page: Page) -> Result<(), Page> {
        pages.put(page, self.options.pages_per_cpu)
    }

    /// Takes a page out of a slot of a CPU, or has the slots filled if there is none.
    #[inline]
    pub(super) fn get(this: &Arc<Self>, pages: &CpuPages) -> Option<Page> {
        let page = pages.get(this.options.pages_per_cpu);

        if page.is_none() {
            Self::is_missed(this, pages);
        }
        page
    }

    /// Puts pages into slots of a CPU, until they are full.
    #[inline]
    pub(super) fn put_bulk(&self, here: &CpuPages, pages: &mut [Option<Page>]) {
        here.put_bulk(pages, self.options.pages_per_cpu);
    }

    /// Puts pages of a CPU into the empty entries of `pages`, or has its slots filled if they are
    /// too few. Returns how many entries, from the first on, hold a page.
    #[inline]
    pub(super) fn get_bulk(this: &Arc<Self>, here: &CpuPages, pages: &mut [Option<Page>]) -> usize {
        let mut stock = here.drain(0).take(this.options.pages_per_cpu);

        for (index, entry) in pages.iter_mut().enumerate() {
            if entry.is_none() {
                *entry = stock.next();
            }
            if entry.is_none() {
                Self::is_missed(this, here);
                return index;
            }
        }
        pages.len()
    }

    /// Has the slots of a CPU filled in a while.
    #[cold]
    fn is_missed(this: &Arc<Self>, pages: &CpuPages) {
        // SAFETY: It only looks at the count of the CPU.
        let is_nmi = unsafe { bindings::in_nmi() };
        // Neither the clock nor work queues are for NMIs, and another call will come.
        if !is_nmi && !this.is_backing_off() && pages.want() {
            filler::enqueue(this);
        }
    }

    /// Returns how many pages there are beyond `floor` of each CPU.
    pub(super) fn count(&self, floor: usize) -> usize {
        let counts = self.cpus.iter().map(|(_, pages)| pages.count());

        counts.map(|count| count.saturating_sub(floor)).sum()
    }

    /// Frees at most `max` pages beyond `floor` of each CPU, and returns how many it freed.
    pub(super) fn drain(&self, floor: usize, max: usize) -> usize {
        let pages = self.cpus.iter().flat_map(|(_, pages)| pages.drain(floor));
        let freed = pages.take(max).map(drop).count();

        // CAST: From 64 to 64 bits.
        self.freed.fetch_add(freed as u64, Relaxed);
        freed
    }

    /// Frees all pages, and does not fill it any more but for what is being filled now.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.drain(0, usize::MAX);
    }

    /// Fills the slots of a CPU.
    ///
    /// Fails with [`ENOMEM`]. What was filled until then stays.
    pub(super) fn fill(&self, cpu: CpuId, pages: &CpuPages) -> Result {
        let room = self.options.pages_per_cpu;

        // Not more often than there are slots, even if others take pages meanwhile.
        for _ in pages.count()..room {
            let page = Page::alloc_near(FILL, cpu)?;
            if pages.put(page, room).is_err() {
                break;
            }
            self.filled.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Fills the slots of all CPUs that are online.
    ///
    /// Fails with [`ENOMEM`]. What was filled until then stays.
    pub(super) fn fill_online(&self) -> Result {
        let mut online = self.cpus.iter().filter(|(cpu, _)| cpus::is_online(*cpu));

        online.try_for_each(|(cpu, pages)| self.fill(cpu, pages))
    }

    /// Fills nothing for a while.
    pub(super) fn back_off(&self) {
        let backoff_ns = i64::from(self.options.backoff_ms).saturating_mul(NSEC_PER_MSEC);
        let end_ns = self.made.elapsed().as_nanos().saturating_add(backoff_ns);

        self.backoff_end_ns.store(end_ns, Relaxed);
    }

    fn is_backing_off(&self) -> bool {
        self.made.elapsed().as_nanos() < self.backoff_end_ns.load(Relaxed)
    }
}

/// Fills the slots of CPUs on which somebody found no page.
impl WorkItem for Shared {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        for (cpu, pages) in this.cpus.iter() {
            // Who finds no page from here on has this run again.
            if !pages.is_wanted.xchg(false, Relaxed) {
                continue;
            }
            if this.is_closed.load(Relaxed) || this.is_backing_off() {
                continue;
            }
            if this.fill(cpu, pages).is_err() {
                this.back_off();
            }
        }
    }
}

/// Neither locks anything, so they may be called whatever the task does.
#[vtable]
impl Callbacks for Shared {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::new(self.count(self.options.floor_per_cpu))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        self.back_off();
        Scan::freed(self.drain(self.options.floor_per_cpu, control.nr_to_scan()))
    }
}
