// SPDX-License-Identifier: GPL-2.0

//! The state that a stash shares with its work item and its shrinker.

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
    mm::{
        gfp::Gfp,
        page::Page,
        shrinker::{
            Callbacks,
            Count,
            Scan,
            ScanControl,
            ShrinkControl, //
        }, //
    },
    percpu::PerCpu, //
};

use super::{
    cpus::{
        self,
        CpuPages,
        MAX_PAGES, //
    },
    filler, //
};

/// The limits of a [`PageStash`](super::PageStash).
///
/// The defaults are those of `kvfree_rcu()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The number of pages per CPU, in the range
    /// `1..=`[`PageStash::MAX_PAGES_PER_CPU`](super::PageStash::MAX_PAGES_PER_CPU).
    pub pages_per_cpu: usize,
    /// The number of pages per CPU that the shrinker keeps, at most `pages_per_cpu`.
    pub floor_per_cpu: usize,
    /// The time without filling after memory was short, in milliseconds.
    pub backoff_ms: Msecs,
}

impl Options {
    /// Returns whether the options are in range.
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

/// The number of pages that a [`PageStash`](super::PageStash) allocated and freed itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of pages that were allocated to fill the stash.
    pub filled: u64,
    /// The number of pages that the shrinker or [`drain()`](super::PageStash::drain) freed.
    pub freed: u64,
}

/// The flags of `fill_page_cache_func()` in `mm/slab_common.c`: a failure is always acceptable.
const FILL_GFP: Gfp = Gfp::KERNEL
    .union(Gfp::NORETRY)
    .union(Gfp::NOMEMALLOC)
    .union(Gfp::NOWARN);

/// The state that a stash shares with its work item and its shrinker.
#[pin_data]
pub(super) struct Shared {
    cpus: PerCpu<CpuPages>,
    options: Options,
    filled: Atomic<u64>,
    freed: Atomic<u64>,
    /// The time base of `backoff_end_ns`.
    created_at: Instant<Monotonic>,
    /// The end of the current back-off, in nanoseconds since `created_at`.
    backoff_end_ns: Atomic<i64>,
    /// The stash was dropped and must not be filled.
    is_closed: AtomicFlag,
    #[pin]
    work: Work<Shared>,
}

impl_has_work! {
    impl HasWork<Self> for Shared { self.work }
}

impl Shared {
    /// Creates empty slots for all possible CPUs.
    ///
    /// Returns [`EINVAL`] if the options are out of range, and [`ENOMEM`].
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
                created_at: Instant::now(),
                backoff_end_ns: Atomic::new(0),
                is_closed: AtomicFlag::new(false),
                work <- new_work!("kscale::page_stash"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            filled: self.filled.load(Relaxed),
            freed: self.freed.load(Relaxed),
        }
    }

    /// Returns the pages of the current CPU.
    #[inline]
    pub(super) fn this_cpu(&self) -> &CpuPages {
        self.cpus.raw_cpu()
    }

    /// Returns the pages of a CPU, or [`None`] if the CPU is not possible.
    pub(super) fn of_cpu(&self, cpu: CpuId) -> Option<&CpuPages> {
        self.cpus.per_cpu(cpu)
    }

    /// Puts a page into a slot of a CPU.
    #[inline]
    pub(super) fn put(&self, pages: &CpuPages, page: Page) -> Result<(), Page> {
        pages.put(page, self.options.pages_per_cpu)
    }

    /// Takes a page out of a slot of a CPU, or queues the work item if there is none.
    #[inline]
    pub(super) fn get(this: &Arc<Self>, pages: &CpuPages) -> Option<Page> {
        let page = pages.get(this.options.pages_per_cpu);

        if page.is_none() {
            Self::queue_refill(this, pages);
        }
        page
    }

    /// Puts pages into the slots of a CPU until all slots are full.
    #[inline]
    pub(super) fn put_bulk(&self, cpu: &CpuPages, pages: &mut [Option<Page>]) {
        cpu.put_bulk(pages, self.options.pages_per_cpu);
    }

    /// Puts pages of a CPU into the empty entries of `pages`, or queues the work item if there are
    /// too few. Returns the number of filled entries, counted from the first.
    #[inline]
    pub(super) fn get_bulk(this: &Arc<Self>, cpu: &CpuPages, pages: &mut [Option<Page>]) -> usize {
        let mut stock = cpu.drain(0).take(this.options.pages_per_cpu);

        for (index, entry) in pages.iter_mut().enumerate() {
            if entry.is_none() {
                *entry = stock.next();
            }
            if entry.is_none() {
                Self::queue_refill(this, cpu);
                return index;
            }
        }
        pages.len()
    }

    /// Queues the work item that fills the slots of a CPU.
    #[cold]
    fn queue_refill(this: &Arc<Self>, pages: &CpuPages) {
        // SAFETY: `in_nmi()` only reads the preempt count.
        let is_nmi = unsafe { bindings::in_nmi() };
        // The clock and work queues are not NMI-safe. A later call queues the work item.
        if !is_nmi && !this.is_backing_off() && pages.request_refill() {
            filler::enqueue(this);
        }
    }

    /// Returns the number of pages above `floor` of each CPU, summed over all CPUs.
    pub(super) fn count(&self, floor: usize) -> usize {
        let counts = self.cpus.iter().map(|(_, pages)| pages.count());

        counts.map(|count| count.saturating_sub(floor)).sum()
    }

    /// Frees at most `max` pages above `floor` of each CPU, and returns the number of freed pages.
    pub(super) fn drain(&self, floor: usize, max: usize) -> usize {
        let mut freed = 0;

        // A loop: objtool refuses the names of functions that inline so many adapters.
        for (_, pages) in self.cpus.iter() {
            freed += pages.drain(floor).take(max - freed).count();
        }

        // CAST: From 64 to 64 bits.
        self.freed.fetch_add(freed as u64, Relaxed);
        freed
    }

    /// Frees all pages and stops filling. A running work item may still add pages.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Relaxed);
        self.drain(0, usize::MAX);
    }

    /// Fills the slots of a CPU.
    ///
    /// Returns [`ENOMEM`] if an allocation fails. Pages that were added before stay.
    pub(super) fn fill(&self, cpu: CpuId, pages: &CpuPages) -> Result {
        let room = self.options.pages_per_cpu;

        // Allocate at most one page per slot, even if other tasks take pages concurrently.
        for _ in pages.count()..room {
            let page = Page::alloc_near(FILL_GFP, cpu)?;
            if pages.put(page, room).is_err() {
                break;
            }
            self.filled.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    /// Fills the slots of all online CPUs.
    ///
    /// Returns [`ENOMEM`] if an allocation fails. Pages that were added before stay.
    pub(super) fn fill_online(&self) -> Result {
        let mut online = self.cpus.iter().filter(|(cpu, _)| cpus::is_online(*cpu));

        online.try_for_each(|(cpu, pages)| self.fill(cpu, pages))
    }

    /// Starts a back-off: the stash is not filled for `backoff_ms`.
    pub(super) fn back_off(&self) {
        let backoff_ns = i64::from(self.options.backoff_ms).saturating_mul(NSEC_PER_MSEC);
        let end_ns = self
            .created_at
            .elapsed()
            .as_nanos()
            .saturating_add(backoff_ns);

        self.backoff_end_ns.store(end_ns, Relaxed);
    }

    fn is_backing_off(&self) -> bool {
        let end_ns = self.backoff_end_ns.load(Relaxed);

        // Most stashes never back off, and reading the clock is slow.
        end_ns != 0 && self.created_at.elapsed().as_nanos() < end_ns
    }
}

/// Fills the slots of the CPUs on which a caller found no page.
impl WorkItem for Shared {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        for (cpu, pages) in this.cpus.iter() {
            // A caller that finds no page after this queues the work item again.
            if !pages.refill_requested.xchg(false, Relaxed) {
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

/// The callbacks take no locks, so they may run while the task holds any lock.
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

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_page_stash_shared)]
mod tests {
    use super::*;

    use crate::{
        mm::page::ALLOC,
        percpu::possible_cpus, //
    };

    fn shared(backoff_ms: Msecs) -> Result<Arc<Shared>> {
        Shared::new(Options {
            pages_per_cpu: 3,
            floor_per_cpu: 1,
            backoff_ms,
        })
    }

    /// Returns the pages of CPU 0, which exists on every machine.
    fn first(shared: &Shared) -> Result<&CpuPages> {
        let cpu = CpuId::from_u32(0).ok_or(ENODEV)?;
        shared.of_cpu(cpu).ok_or(ENODEV)
    }

    #[test]
    fn requested_cpu_is_refilled() -> Result {
        let shared = shared(1000)?;
        let first = first(&shared)?;

        Shared::run(shared.clone());
        assert_eq!(shared.count(0), 0);
        // Only the first request returns true.
        assert!(first.request_refill());
        assert!(!first.request_refill());
        Shared::run(shared.clone());
        assert_eq!((first.count(), shared.count(0)), (3, 3));
        assert!(!first.refill_requested.load(Relaxed));

        // Fill the slots of all CPUs.
        for (_, pages) in shared.cpus.iter() {
            pages.request_refill();
        }
        Shared::run(shared.clone());
        assert_eq!(shared.count(0), 3 * possible_cpus().count());
        assert_eq!(shared.stats().filled, shared.count(0) as u64);
        Ok(())
    }

    #[test]
    fn other_cpus_are_not_refilled() -> Result {
        let shared = shared(1000)?;
        let first = first(&shared)?;
        shared.fill_online()?;
        assert!(shared.count(0) >= 3);

        assert!(first.request_refill());
        shared.close();
        assert_eq!(shared.count(0), 0);
        assert_eq!(shared.stats().freed, shared.stats().filled);
        Shared::run(shared.clone());
        assert_eq!(shared.count(0), 0);
        assert!(!first.refill_requested.load(Relaxed));
        Ok(())
    }

    #[test]
    fn back_off_prevents_refills() -> Result {
        let (shared, other) = (shared(3_600_000)?, shared(3_600_000)?);
        let pages = first(&shared)?;

        assert!(!shared.is_backing_off());
        assert!(pages.request_refill());
        shared.back_off();
        assert!(shared.is_backing_off());
        Shared::run(shared.clone());
        assert_eq!(shared.count(0), 0);
        // A failed `get()` does not queue the work item, either.
        assert!(Shared::get(&shared, pages).is_none());
        assert!(!pages.refill_requested.load(Relaxed));

        let pages = first(&other)?;
        assert!(pages.request_refill());
        ALLOC.fail(|| Shared::run(other.clone()));
        assert!(other.is_backing_off());
        Ok(())
    }

    /// A request that remains would prevent all later ones.
    #[test]
    fn failed_refill_ends_the_requests_of_all_cpus() -> Result {
        let shared = shared(3_600_000)?;

        for (_, pages) in shared.cpus.iter() {
            assert!(pages.request_refill());
        }
        ALLOC.fail(|| Shared::run(shared.clone()));
        for (_, pages) in shared.cpus.iter() {
            assert!(!pages.refill_requested.load(Relaxed));
        }
        Ok(())
    }

    #[test]
    fn back_off_lasts_for_backoff_ms() -> Result {
        // Milliseconds, nanoseconds.
        const ROWS: [(Msecs, i64); 4] = [
            (0, 0),
            (1, 1_000_000),
            (5000, 5_000_000_000),
            (Msecs::MAX, Msecs::MAX as i64 * 1_000_000),
        ];

        for (backoff_ms, backoff_ns) in ROWS {
            let shared = shared(backoff_ms)?;
            let before = shared.created_at.elapsed().as_nanos();
            shared.back_off();
            let after = shared.created_at.elapsed().as_nanos();

            let begin = shared.backoff_end_ns.load(Relaxed) - backoff_ns;
            assert!((before..=after).contains(&begin));
        }
        // A back-off of 0 ms ends at once.
        let shared = shared(0)?;
        shared.back_off();
        assert!(!shared.is_backing_off());
        Ok(())
    }

    #[test]
    fn failed_get_requests_a_refill() -> Result {
        let shared = shared(1000)?;
        let pages = first(&shared)?;
        let wait = || {
            for _ in 0..10_000 {
                if shared.count(0) == 3 {
                    break;
                }
                kernel::time::delay::fsleep(kernel::time::Delta::from_millis(1));
            }
            shared.count(0)
        };

        assert!(Shared::get(&shared, pages).is_none());
        assert_eq!(wait(), 3);
        // Cached pages fill the first empty entries.
        let mut taken = [const { None }; 5];
        taken[1] = Some(Page::alloc(Gfp::KERNEL)?);
        assert_eq!(Shared::get_bulk(&shared, pages, &mut taken), 4);
        assert!(taken[..4].iter().all(Option::is_some) && taken[4].is_none());
        assert_eq!(wait(), 3);
        Ok(())
    }

    #[test]
    fn default_options_match_c() {
        let options = Options::default();

        assert_eq!((options.pages_per_cpu, options.floor_per_cpu), (5, 0));
        assert_eq!(options.backoff_ms, 5000);
        assert!(FILL_GFP.contains(Gfp::KERNEL | Gfp::NORETRY | Gfp::NOMEMALLOC | Gfp::NOWARN));
    }
}
