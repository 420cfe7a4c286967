// SPDX-License-Identifier: GPL-2.0

//! The public interface of the page stash.

use kernel::{
    cpu::CpuId,
    prelude::*,
    sync::Arc, //
};

use core::num::NonZeroU32;

use crate::mm::{
    page::Page,
    shrinker::{
        Flags,
        Registration,
        Shrinker, //
    }, //
};

use super::{
    cpus::MAX_PAGES,
    shared::{
        Options,
        Shared,
        Stats, //
    }, //
};

/// Per-CPU stashes of free pages, filled by a work item and drained by a shrinker.
///
/// The [module documentation](super) describes the guarantees and the cost. A leaked stash keeps
/// its pages: its shrinker frees them under memory pressure until the library is unloaded.
pub struct PageStash {
    shared: Arc<Shared>,
    _shrinker: Registration<Shared>,
}

impl PageStash {
    /// The maximum number of pages per CPU: 32.
    pub const MAX_PAGES_PER_CPU: usize = MAX_PAGES;

    /// Creates an empty stash. `name` is the name of the shrinker in debugfs.
    ///
    /// Allocates 320 bytes for each possible CPU.
    ///
    /// Returns [`EINVAL`] if the options are out of range, [`ENOMEM`] if memory is short, and the
    /// errors of
    /// [`Shrinker::new()`]: [`EDEADLK`] in a callback of a shrinker, [`EINVAL`] for a long name.
    ///
    /// Context: Process context. May sleep.
    pub fn new(name: &CStr, options: Options) -> Result<Self> {
        // This comes first, because it fails in a callback: the other allocations might deadlock
        // there.
        let shrinker = Shrinker::new(name, Flags::NONE)?;
        let shared = Shared::new(options)?;
        // The pages are cheap to allocate again once memory is available, and there are few of
        // them.
        let shrinker = shrinker
            .set_seeks(0)
            .set_batch(NonZeroU32::MIN.saturating_add(31))
            .register(shared.clone())?;

        Ok(Self {
            shared,
            _shrinker: shrinker,
        })
    }

    /// Takes a page of this CPU.
    ///
    /// The bytes of the page are those of its last user. If there is no page, queues the work item
    /// that fills the slots of this CPU, except in NMI context. A task that migrates during the
    /// call gets a page of the CPU that it started on.
    ///
    /// Context: Any context. Never sleeps. Disables interrupts only if there is no page.
    #[inline]
    pub fn get(&self) -> Option<Page> {
        Shared::get(&self.shared, self.shared.this_cpu())
    }

    /// Puts a page into a slot of this CPU, or returns the page if all slots are full.
    ///
    /// Context: Any context. Never sleeps. Does not disable interrupts.
    #[inline]
    pub fn put(&self, page: Page) -> Result<(), Page> {
        self.shared.put(self.shared.this_cpu(), page)
    }

    /// Puts pages of this CPU into the empty entries of `pages`, starting with the first entry.
    ///
    /// Returns the number `n` of filled entries: the first `n` entries of `pages` hold a page, as
    /// with [`page::alloc_bulk()`](crate::mm::page::alloc_bulk). Otherwise behaves as
    /// [`get()`](Self::get), except that it reads each slot only once for all pages.
    ///
    /// Context: Any context. Never sleeps. Disables interrupts only if there are too few pages.
    #[inline]
    pub fn get_bulk(&self, pages: &mut [Option<Page>]) -> usize {
        Shared::get_bulk(&self.shared, self.shared.this_cpu(), pages)
    }

    /// Puts pages from `pages` into the slots of this CPU, starting with the first, until all slots
    /// are full.
    ///
    /// Sets the entries of the pages that it put to [`None`].
    ///
    /// Context: Any context. Never sleeps. Does not disable interrupts.
    #[inline]
    pub fn put_bulk(&self, pages: &mut [Option<Page>]) {
        self.shared.put_bulk(self.shared.this_cpu(), pages);
    }

    /// Takes a page of `cpu`, like [`get()`](Self::get).
    ///
    /// Returns [`None`] if `cpu` is not possible.
    ///
    /// Context: As [`get()`](Self::get).
    pub fn get_on(&self, cpu: CpuId) -> Option<Page> {
        Shared::get(&self.shared, self.shared.of_cpu(cpu)?)
    }

    /// Puts a page into a slot of `cpu`, like [`put()`](Self::put).
    ///
    /// Returns the page if `cpu` is not possible.
    ///
    /// Context: As [`put()`](Self::put).
    pub fn put_on(&self, cpu: CpuId, page: Page) -> Result<(), Page> {
        match self.shared.of_cpu(cpu) {
            Some(pages) => self.shared.put(pages, page),
            None => Err(page),
        }
    }

    /// Fills the slots of all online CPUs.
    ///
    /// Returns [`ENOMEM`] if the page allocator fails after one round of reclaim. Pages that were
    /// added before the error stay.
    ///
    /// Context: Process context. May sleep.
    pub fn fill(&self) -> Result {
        self.shared.fill_online()
    }

    /// Frees the pages of all CPUs, including offline CPUs, and returns their number.
    ///
    /// Pages that are put during the call may stay.
    ///
    /// Context: Any context except NMI. Never sleeps. Reads the slots of every possible CPU.
    pub fn drain(&self) -> usize {
        self.shared.drain(0, usize::MAX)
    }

    /// Returns the number of pages of all CPUs.
    ///
    /// Exact only if no other call runs.
    ///
    /// Context: Any context. Never sleeps. Reads the slots of every possible CPU.
    pub fn cached(&self) -> usize {
        self.shared.count(0)
    }

    /// Returns the number of pages of `cpu`, which is 0 if `cpu` is not possible.
    ///
    /// Exact only if no other call runs.
    ///
    /// Context: Any context. Never sleeps.
    pub fn cached_on(&self, cpu: CpuId) -> usize {
        self.shared.of_cpu(cpu).map_or(0, |pages| pages.count())
    }

    /// Returns the number of pages that were filled and freed.
    ///
    /// Context: Any context. Never sleeps.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

impl Drop for PageStash {
    /// Frees all pages. A work item that is running frees the pages that it adds.
    fn drop(&mut self) {
        self.shared.close();
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_page_stash)]
mod tests {
    use super::*;

    use crate::{
        bindings,
        mm::{
            gfp::Gfp,
            shrinker::{
                as_in_reclaim,
                Count, //
            }, //
        },
        percpu::{
            possible_cpus,
            testing::on_all_cpus, //
            with_interrupts_disabled,
        }, //
    };

    use kernel::{
        sync::atomic::{
            Atomic,
            Relaxed, //
        },
        time::{
            delay::fsleep,
            Delta, //
        }, //
    };

    const NAME: &CStr = c"kscale_kunit";

    fn cache(pages_per_cpu: usize, floor_per_cpu: usize) -> Result<PageStash> {
        let options = Options {
            pages_per_cpu,
            floor_per_cpu,
            backoff_ms: 3_600_000,
        };
        PageStash::new(NAME, options)
    }

    fn page(byte: u8) -> Result<Page> {
        let mut page = Page::alloc(Gfp::KERNEL)?;
        page.fill(byte);
        Ok(page)
    }

    fn is_filled(page: Option<Page>, byte: u8) -> bool {
        let Some(page) = page else { return false };
        // SAFETY: The pages of these tests are filled.
        let bytes = unsafe { page.assume_filled() }.as_slice();
        bytes.iter().all(|&found| found == byte)
    }

    /// Returns CPU 0, which exists on every machine.
    fn cpu() -> Result<CpuId> {
        CpuId::from_u32(0).ok_or(ENODEV)
    }

    #[test]
    fn cached_page_keeps_its_bytes() -> Result {
        let cache = cache(4, 0)?;

        assert!(cache.put_on(cpu()?, page(0x5a)?).is_ok());
        assert_eq!(cache.cached(), 1);
        assert_eq!(cache.cached_on(cpu()?), 1);
        assert!(is_filled(cache.get_on(cpu()?), 0x5a));
        assert_eq!(cache.cached(), 0);
        Ok(())
    }

    #[test]
    fn options_have_bounds() {
        const MOST: usize = PageStash::MAX_PAGES_PER_CPU;
        // Pages, floor, whether the options are accepted.
        const ROWS: [(usize, usize, bool); 9] = [
            (0, 0, false),
            (1, 0, true),
            (1, 1, true),
            (1, 2, false),
            (MOST, 0, true),
            (MOST, MOST, true),
            (MOST, MOST + 1, false),
            (MOST + 1, 0, false),
            (usize::MAX, 0, false),
        ];

        for (pages, floor, accepted) in ROWS {
            let error = cache(pages, floor).err();
            assert_eq!(error, (!accepted).then_some(EINVAL));
        }
    }

    #[test]
    fn new_stash_fails_in_reclaim() {
        // The reclaim check comes before the check of the options.
        let error = as_in_reclaim(|| cache(0, 0).err());
        assert_eq!(error, Some(EDEADLK));
    }

    #[test]
    fn capacity_is_pages_per_cpu() -> Result {
        for pages_per_cpu in [1, 5, PageStash::MAX_PAGES_PER_CPU] {
            let cache = cache(pages_per_cpu, 0)?;

            for _ in 0..pages_per_cpu {
                assert!(cache.put_on(cpu()?, page(1)?).is_ok());
            }
            let refused = cache.put_on(cpu()?, page(2)?).err();
            assert!(is_filled(refused, 2));
            assert_eq!(cache.cached(), pages_per_cpu);

            for _ in 0..pages_per_cpu {
                assert!(is_filled(cache.get_on(cpu()?), 1));
            }
            assert!(cache.get_on(cpu()?).is_none());
        }
        Ok(())
    }

    #[test]
    fn bulk_puts_and_gets_pages() -> Result {
        let cache = cache(4, 0)?;
        let mut pages = [const { None }; 6];
        for entry in &mut pages[1..] {
            *entry = Some(page(3)?);
        }

        // A task may migrate to another CPU, except with interrupts disabled.
        let mut taken = [const { None }; 3];
        let mut rest = [const { None }; 3];
        let counts = with_interrupts_disabled(|_| {
            cache.put_bulk(&mut pages);
            let put = (pages.iter().flatten().count(), cache.cached());
            taken[1] = pages[5].take();
            let got = (cache.get_bulk(&mut taken), cache.cached());
            (put, got, cache.get_bulk(&mut rest), cache.get_bulk(&mut []))
        });

        assert_eq!(counts, ((1, 4), (3, 2), 2, 0));
        assert!(taken.into_iter().all(|page| is_filled(page, 3)));
        Ok(())
    }

    #[test]
    fn impossible_cpu_is_rejected() -> Result {
        let cache = cache(4, 0)?;

        for cpu in (0..kernel::cpu::nr_cpu_ids()).filter_map(CpuId::from_u32) {
            let is_possible = possible_cpus().any(|possible| possible == cpu);
            assert_eq!(cache.put_on(cpu, page(1)?).is_ok(), is_possible);
            assert_eq!(cache.get_on(cpu).is_some(), is_possible);
        }
        Ok(())
    }

    #[test]
    fn fill_and_drain_are_counted() -> Result {
        let cache = cache(3, 1)?;

        cache.fill()?;
        let filled = cache.cached();
        assert!(filled >= 3);
        assert_eq!(filled % 3, 0);
        cache.fill()?;
        assert_eq!(cache.cached(), filled);

        drop(cache.get_on(cpu()?));
        assert_eq!(cache.drain(), filled - 1);
        assert_eq!(cache.cached(), 0);
        let stats = Stats {
            filled: filled as u64,
            freed: filled as u64 - 1,
        };
        assert!(cache.stats() == stats);
        Ok(())
    }

    #[test]
    fn shrinker_frees_pages_above_the_floor() -> Result {
        let cache = cache(4, 1)?;
        cache.fill()?;
        let cpus = cache.cached() / 4;

        assert_eq!(cache.shared.count(1), 3 * cpus);
        assert_eq!(cache.shared.drain(1, 2), 2);
        assert_eq!(cache.cached(), 4 * cpus - 2);
        assert_eq!(cache.shared.drain(1, usize::MAX), 3 * cpus - 2);
        assert_eq!(cache.shared.drain(1, usize::MAX), 0);
        assert_eq!(cache.cached(), cpus);
        Ok(())
    }

    #[test]
    fn reclaim_leaves_the_floor() -> Result {
        let cache = cache(4, 1)?;
        cache.fill()?;
        let cpus = cache.cached() / 4;

        assert_eq!(cache._shrinker.call_back(usize::MAX), 3 * cpus);
        assert_eq!(cache.cached(), cpus);
        Ok(())
    }

    #[test]
    fn floor_counts_pages_in_any_slot() -> Result {
        let cache = cache(6, 2)?;
        for byte in 0..6 {
            assert!(cache.put_on(cpu()?, page(byte)?).is_ok());
        }

        // Take the pages from the first slots.
        let taken = [cache.get_on(cpu()?), cache.get_on(cpu()?)];
        assert_eq!(cache.shared.count(2), 2);
        assert_eq!(cache.shared.drain(2, usize::MAX), 2);
        assert_eq!(cache.cached(), 2);

        drop(cache.get_on(cpu()?));
        assert_eq!(cache.shared.count(2), 0);
        assert_eq!(cache.shared.drain(2, usize::MAX), 0);
        assert_eq!(cache.cached(), 1);
        assert!(taken.iter().all(Option::is_some));
        Ok(())
    }

    #[test]
    fn failed_get_refills_the_slots() -> Result {
        let cache = cache(5, 0)?;

        assert!(cache.get_on(cpu()?).is_none());

        for _ in 0..1000 {
            if cache.cached() == 5 {
                break;
            }
            fsleep(Delta::from_millis(1));
        }
        // The slots of the other CPUs stay empty.
        assert_eq!(cache.cached(), 5);
        assert_eq!(cache.stats().filled, 5);
        Ok(())
    }

    #[test]
    fn back_off_prevents_refill_requests() -> Result {
        let cache = cache(5, 0)?;
        let pages = cache.shared.of_cpu(cpu()?).ok_or(ENODEV)?;

        cache.shared.back_off();
        assert!(cache.get_on(cpu()?).is_none());
        // No work item was queued.
        assert!(!pages.refill_requested.load(Relaxed));

        let cache = PageStash::new(
            NAME,
            Options {
                backoff_ms: 0,
                ..Options::default()
            },
        )?;
        let pages = cache.shared.of_cpu(cpu()?).ok_or(ENODEV)?;
        cache.shared.back_off();
        assert!(pages.request_refill());
        Ok(())
    }

    #[test]
    fn pages_are_put_and_got_with_interrupts_off() -> Result {
        let cache = cache(2, 0)?;
        let mine = page(7)?;

        let (is_put, mine, none) = with_interrupts_disabled(|_| {
            let is_put = cache.put(mine).is_ok();
            (is_put, cache.get(), cache.get())
        });

        assert!(is_put);
        assert!(is_filled(mine, 7));
        assert!(none.is_none());
        Ok(())
    }

    #[test]
    fn drop_frees_all_pages() -> Result {
        let cache = cache(2, 2)?;
        let mine = page(7)?;
        mine.references().add(1, Relaxed);
        let raw = mine.as_ptr();
        assert!(cache.put_on(cpu()?, mine).is_ok());

        drop(cache);

        let raw = core::ptr::NonNull::new(raw).ok_or(EINVAL)?;
        // SAFETY: The reference that was added above is the only one left.
        let mine = unsafe { Page::<0>::from_raw(raw) };
        assert_eq!(mine.references().load(Relaxed), 1);
        Ok(())
    }

    /// A stash, with counters of the pages that tasks allocated and freed.
    struct Busy {
        cache: PageStash,
        allocated: Atomic<u64>,
        freed: Atomic<u64>,
    }

    /// Gets and puts pages of this CPU and of other CPUs, and drains some.
    fn keep_busy(busy: &Busy) {
        let free = |page: Page| {
            drop(page);
            busy.freed.fetch_add(1, Relaxed);
        };
        for round in 0..500 {
            let cpu = possible_cpus().nth(round % 4);
            let page = match cpu.and_then(|cpu| busy.cache.get_on(cpu)) {
                Some(page) => page,
                None => match Page::alloc(Gfp::KERNEL) {
                    Ok(page) => {
                        busy.allocated.fetch_add(1, Relaxed);
                        page
                    }
                    Err(_) => continue,
                },
            };
            if let Err(page) = busy.cache.put(page) {
                free(page);
            }
            if round % 100 == 99 {
                busy.cache.shared.drain(1, 3);
            }
            busy.cache.get().map(free);
        }
    }

    #[test]
    fn concurrent_calls_lose_no_page() -> Result {
        let busy = Arc::new(
            Busy {
                cache: cache(3, 1)?,
                allocated: Atomic::new(0),
                freed: Atomic::new(0),
            },
            GFP_KERNEL,
        )?;

        on_all_cpus(&busy, keep_busy)?;

        // The work item may still fill slots: retry until the numbers are stable and match.
        for _ in 0..1000 {
            let before = busy.cache.stats();
            let cached = busy.cache.cached() as u64;
            let allocated = busy.allocated.load(Relaxed) + before.filled;
            let freed = busy.freed.load(Relaxed) + before.freed;
            if allocated == freed + cached && busy.cache.stats() == before {
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        Err(EIO)
    }

    #[test]
    fn stash_can_be_leaked() -> Result {
        let cache = cache(2, 0)?;
        cache.fill()?;
        crate::testing::leak::forget(cache)
    }

    #[test]
    fn pages_stay_on_their_cpu() -> Result {
        let cache = cache(4, 0)?;
        // Stop the work item from filling slots.
        cache.shared.back_off();
        for cpu in possible_cpus() {
            for _ in 0..1 + cpu.as_u32() % 3 {
                assert!(cache.put_on(cpu, page(cpu.as_u32() as u8)?).is_ok());
            }
        }

        for cpu in (0..kernel::cpu::nr_cpu_ids()).filter_map(CpuId::from_u32) {
            let is_possible = possible_cpus().any(|possible| possible == cpu);
            let count = if is_possible { 1 + cpu.as_u32() % 3 } else { 0 };
            assert_eq!(cache.cached_on(cpu), count as usize);
            for _ in 0..count {
                assert!(is_filled(cache.get_on(cpu), cpu.as_u32() as u8));
            }
            assert!(cache.get_on(cpu).is_none());
            assert_eq!(cache.cached_on(cpu), 0);
        }
        Ok(())
    }

    #[test]
    fn fill_keeps_cached_pages() -> Result {
        let cache = cache(4, 0)?;
        assert!(cache.put_on(cpu()?, page(1)?).is_ok());

        cache.fill()?;

        assert_eq!(cache.cached_on(cpu()?), 4);
        let stats = cache.stats();
        assert_eq!(stats.filled, cache.cached() as u64 - 1);
        assert_eq!(stats.freed, 0);
        Ok(())
    }

    #[test]
    fn failed_fill_keeps_its_pages() -> Result {
        let cache = cache(4, 0)?;
        assert!(cache.put_on(cpu()?, page(1)?).is_ok());

        let result = crate::mm::page::ALLOC.fail(|| cache.fill());

        assert_eq!(result, Err(ENOMEM));
        assert_eq!((cache.cached(), cache.stats().filled), (1, 0));
        cache.fill()?;
        assert_eq!(cache.cached_on(cpu()?), 4);
        Ok(())
    }

    #[test]
    fn reclaim_frees_pages_and_starts_a_back_off() -> Result {
        let cache = cache(4, 1)?;
        for _ in 0..4 {
            assert!(cache.put_on(cpu()?, page(1)?).is_ok());
        }

        assert_eq!(cache._shrinker.call_back(2), 2);
        assert_eq!((cache.cached(), cache.stats().freed), (2, 2));
        let pages = cache.shared.of_cpu(cpu()?).ok_or(ENODEV)?;
        while cache.get_on(cpu()?).is_some() {}
        assert!(!pages.refill_requested.load(Relaxed));
        // The only page is within the floor.
        assert!(cache.put_on(cpu()?, page(1)?).is_ok());
        assert_eq!(cache._shrinker.call_back(2), Count::EMPTY.into_raw());
        Ok(())
    }

    #[test]
    fn shrinker_has_no_seeks_and_batch_32() -> Result {
        let cache = cache(4, 1)?;
        let raw = cache._shrinker.raw();

        // SAFETY: The shrinker is registered, and C does not change these fields.
        let (seeks, batch, flags) = unsafe { ((*raw).seeks, (*raw).batch, (*raw).flags) };
        assert_eq!((seeks, batch), (0, 32));
        assert_eq!(flags & bindings::SHRINKER_NUMA_AWARE, 0);
        Ok(())
    }
}
