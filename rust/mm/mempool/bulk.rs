// SPDX-License-Identifier: GPL-2.0

//! Bulk allocation of elements of a memory pool.

use kernel::{
    num::casts::FromSafeCast,
    prelude::*, //
};

use core::mem::{
    self,
    MaybeUninit, //
};

use super::{
    element::Element,
    pool::Mempool,
    source::Source, //
};

use crate::{
    bindings,
    mm::{
        gfp::{
            noio_scope,
            Gfp, //
        },
        page::Page, //
    }, //
};

impl<S: Source> Mempool<S> {
    /// The flags of the first pass of `mempool_alloc_bulk_noprof()` in `mm/mempool.c`: do not wait
    /// for memory, and use no reserves other than the pool's.
    const FIRST_PASS: Gfp = Gfp::NOWAIT.union(Gfp::NORETRY).union(Gfp::NOMEMALLOC);

    /// Allocates `slots.len()` elements, all of them or none.
    ///
    /// The source allocates elements in bulk first: pages by
    /// [`page::alloc_bulk`](crate::mm::page::alloc_bulk), objects of a slab cache, or elements of
    /// [`Allocator::alloc_bulk`](super::Allocator::alloc_bulk). The source then allocates the rest
    /// one by one, and the reserve provides the elements that are still missing. If the reserve has
    /// too few elements, the call waits without taking any of them. Two callers therefore never
    /// deadlock, unless one of them already holds elements of the pool. Memory allocation never
    /// starts I/O, independent of the caller's context.
    ///
    /// `slots` stores the elements while they are in use: a call that must not fail cannot allocate
    /// this storage. Use an array of `MaybeUninit`, or the spare capacity of a vector.
    ///
    /// Returns [`EINVAL`] if `slots` is empty or longer than [`min_nr()`](Self::min_nr), because
    /// the call could wait forever.
    ///
    /// Context: Process context. May sleep.
    #[inline]
    pub fn alloc_bulk<'a>(
        &'a self,
        slots: &'a mut [MaybeUninit<S::Memory>],
    ) -> Result<Bulk<'a, S>> {
        self.fill(slots)?;

        // INVARIANT: `fill()` put an element into every slot.
        Ok(Bulk { pool: self, slots })
    }

    /// Puts an element into each of `slots` without reading the old contents.
    #[inline]
    pub(super) fn fill(&self, slots: &mut [MaybeUninit<S::Memory>]) -> Result {
        if slots.is_empty() || slots.len() > self.min_nr() {
            return Err(EINVAL);
        }

        // `mempool_alloc_bulk_noprof()` in `mm/mempool.c` always uses `GFP_KERNEL`.
        noio_scope(|| {
            // SAFETY: The elements are recorded below, together with the rest.
            let populated = unsafe { self.source.alloc_bulk(Self::FIRST_PASS, slots) };
            let rest = slots.get_mut(populated..).unwrap_or_default();

            if !rest.is_empty() {
                // SAFETY:
                // - `inner` is initialised by the type invariants.
                // - `rest` is valid for writes of `rest.len()` pointers, by the contract of
                //   `Memory`.
                // - At most `min_nr` elements are allocated, checked above. `min_nr` cannot shrink
                //   while `self` is borrowed, by the type invariants.
                // INVARIANT: C fills `rest` with elements, which are valid for `Memory::from_raw()`
                // by the type invariants, and transfers their ownership to the caller.
                //
                // CAST: `min_nr` is an `i32`.
                unsafe {
                    bindings::mempool_alloc_bulk_noprof(
                        self.inner.get(),
                        rest.as_mut_ptr().cast(),
                        rest.len() as u32,
                    )
                };
            }
        });
        // SAFETY: Each slot holds an element, and the caller owns them.
        unsafe { self.source.taken(slots.len()) };
        Ok(())
    }

    /// Returns the elements in `slots` to the reserve, and the surplus to the source.
    ///
    /// # Safety
    ///
    /// All of `slots` must hold elements from [`fill`](Self::fill), or equivalent pages. The caller
    /// must give up its ownership.
    #[inline]
    pub(super) unsafe fn empty(&self, slots: &mut [MaybeUninit<S::Memory>]) {
        // C may read the first element even if the count is 0.
        if slots.is_empty() {
            return;
        }
        // SAFETY: The caller owns the elements. `fill()` has recorded them, or equivalent pages, by
        // the safety requirements. They are returned below.
        unsafe { self.source.returned(slots.len()) };

        // SAFETY:
        // - `inner` is initialised by the type invariants.
        // - `slots` have the layout of pointers by the contract of `Memory`, and are elements.
        // INVARIANT: C takes the first `absorbed` elements, which are not used again.
        //
        // CAST: At most `MAX_MIN_NR`, as `fill()` checked.
        let absorbed = unsafe {
            bindings::mempool_free_bulk(
                self.inner.get(),
                slots.as_mut_ptr().cast(),
                slots.len() as u32,
            )
        };
        let rest = slots
            .get_mut(usize::from_safe_cast(absorbed)..)
            .unwrap_or_default();
        // SAFETY: By the safety requirements.
        unsafe { self.source.free_bulk(rest) };
    }
}

/// Elements from a [`Mempool`], returned to it on drop.
///
/// Do not forget a `Bulk`: the reserve stays short of its elements.
///
/// # Invariants
///
/// `self` owns the elements in all of `slots`. Each is an element of the pool that the source
/// recorded as taken, or an equivalent page.
#[must_use = "the elements go back to their pool at once"]
pub struct Bulk<'a, S: Source> {
    pool: &'a Mempool<S>,
    slots: &'a mut [MaybeUninit<S::Memory>],
}

impl<'a, S: Source> Bulk<'a, S> {
    /// Removes an element, which then returns to the pool on its own, for example to write a value.
    ///
    /// Returns [`None`] if no element is left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn take(&mut self) -> Option<Element<&'a Mempool<S>>> {
        // INVARIANT: The other slots hold an element as before.
        let (last, rest) = mem::take(&mut self.slots).split_last_mut()?;
        self.slots = rest;

        // SAFETY: The slot holds an element by the type invariants, and `self` gives it up above.
        let memory = unsafe { last.assume_init_read() };
        // SAFETY: By the type invariants.
        Some(unsafe { Element::new(self.pool, memory) })
    }

    /// Returns the number of elements that are left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether all elements were removed.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

impl<S: Source<Memory = Page<ORDER>>, const ORDER: u32> Bulk<'_, S> {
    /// Returns a mutable iterator over the pages.
    ///
    /// A page may be swapped for another page of the same order.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn pages_mut(&mut self) -> impl Iterator<Item = &mut Page<ORDER>> {
        self.slots.iter_mut().map(|slot| {
            // SAFETY: By the type invariants.
            unsafe { slot.assume_init_mut() }
        })
    }
}

/// Never sleeps.
impl<S: Source> Drop for Bulk<'_, S> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The slots hold elements by the type invariants, and are not used again.
        unsafe { self.pool.empty(self.slots) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_bulk)]
mod tests {
    use super::{
        super::{
            test_allocator::{
                counting_pool,
                Ledger,
                Stats, //
            },
            Allocator,
            Kmalloc,
            Pages, //
        },
        *, //
    };

    use core::ptr::{
        self,
        NonNull, //
    };

    use kernel::{
        page::PAGE_SIZE,
        sync::atomic::Relaxed, //
    };

    /// Returns `N` empty slots.
    fn slots<const N: usize>() -> [MaybeUninit<Page>; N] {
        [const { MaybeUninit::uninit() }; N]
    }

    fn stats(bulk: u64, single: u64, reserve: u64) -> Stats {
        Stats {
            bulk,
            single,
            reserve,
        }
    }

    #[test]
    fn bulk_falls_back_to_the_next_source() -> Result {
        // Pages per bulk call, whether single allocations fail, expected statistics.
        let rows = [
            (8, false, stats(8, 0, 0)),
            (7, false, stats(7, 1, 0)),
            (0, false, stats(0, 8, 0)),
            (8, true, stats(8, 0, 0)),
            (7, true, stats(7, 0, 1)),
            (1, true, stats(1, 0, 7)),
            (0, true, stats(0, 0, 8)),
        ];

        for (bulk, refuses, expected) in rows {
            let ledger = Ledger::new()?;
            let pool = counting_pool(8, &ledger)?;
            let mut slots = slots::<8>();
            ledger.limit_bulk(bulk);
            if refuses {
                ledger.refuse();
            }

            let mut pages = pool.alloc_bulk(&mut slots)?;
            for page in pages.pages_mut() {
                page.fill(0xaa);
            }
            assert_eq!(pages.len(), 8);
            drop(pages);

            assert!(pool.source().stats() == expected);
            assert_eq!(ledger.live(), 8);
            drop(pool);
            assert_eq!(ledger.live(), 0);
        }
        Ok(())
    }

    /// The source frees the elements that the reserve has no room for.
    #[test]
    fn surplus_memory_is_freed() -> Result {
        const LEN: usize = 1 << 16;
        const ROUNDS: usize = 48;
        let pool = KBox::pin_init(Mempool::new(8, Kmalloc::<[u8; LEN]>::new()), GFP_KERNEL)?;
        let available = || {
            // SAFETY: Reads counters.
            unsafe { bindings::si_mem_available() }
                .max(0)
                .unsigned_abs() as usize
        };
        let before = available();

        for _ in 0..ROUNDS {
            let mut slots = [const { MaybeUninit::uninit() }; 8];
            drop(pool.alloc_bulk(&mut slots)?);
        }

        let lost = before.saturating_sub(available()) * PAGE_SIZE;
        assert!(lost < ROUNDS * 8 * LEN / 2);
        Ok(())
    }

    #[test]
    fn pages_of_the_reserve_stay_allocated() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(8, &ledger)?;
        let mut slots = slots::<8>();
        ledger.limit_bulk(0);
        ledger.refuse();

        for _ in 0..4 {
            let mut pages = pool.alloc_bulk(&mut slots)?;
            assert!(pages
                .pages_mut()
                .all(|page| page.references().load(Relaxed) == 1));
        }
        Ok(())
    }

    #[test]
    fn bulk_accepts_one_to_min_nr_pages() -> Result {
        // Length, whether a pool of 4 accepts it.
        const ROWS: [(usize, bool); 5] = [(0, false), (1, true), (4, true), (5, false), (8, false)];
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        let mut slots = slots::<8>();

        for (len, accepted) in ROWS {
            let result = pool.alloc_bulk(&mut slots[..len]).map(drop);
            assert_eq!(result, if accepted { Ok(()) } else { Err(EINVAL) });
        }

        assert_eq!(ledger.live(), 4);
        Ok(())
    }

    #[test]
    fn bulk_with_gaps_leaks_no_page() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        let mut slots = slots::<4>();
        ledger.limit_bulk(3);
        ledger.leave_gap();
        ledger.refuse();

        let pages = pool.alloc_bulk(&mut slots)?;

        assert_eq!(ledger.live(), 4);
        drop(pages);
        assert!(pool.source().stats() == stats(0, 0, 4));
        Ok(())
    }

    #[test]
    fn pages_are_taken_in_a_noio_scope() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(2, &ledger)?;
        let mut slots = slots::<2>();
        ledger.limit_bulk(1);
        assert_eq!(ledger.calls_outside_noio(), 2);

        drop(pool.alloc_bulk(&mut slots)?);

        assert_eq!(ledger.calls_outside_noio(), 2);
        Ok(())
    }

    #[test]
    fn pages_use_the_bulk_allocator() -> Result {
        let pool = KBox::pin_init(Mempool::new(256, Pages::<0>), GFP_KERNEL)?;
        let mut slots = slots::<256>();

        let mut pages = pool.alloc_bulk(&mut slots)?;

        assert!(pages
            .pages_mut()
            .all(|page| page.references().load(Relaxed) == 1));
        // The reserve is unused, unless memory is short.
        assert!(pool.alloc_preallocated().is_some());
        Ok(())
    }

    /// An allocator whose `free_bulk()` frees nothing.
    struct IgnoresBulk;

    impl Allocator for IgnoresBulk {
        type Memory = Page;

        fn alloc(&self, gfp: Gfp) -> Option<Page> {
            Page::alloc(gfp).ok()
        }

        fn free(&self, page: Page) {
            drop(page);
        }

        fn free_bulk(&self, _: &mut [Option<Page>]) {}
    }

    /// Fails with [`EINVAL`] if a bulk whose pages exceed the reserve does not free its pages.
    fn check_surplus<S: Source<Memory = Page>>(source: S) -> Result {
        let pool = KBox::pin_init(Mempool::new(2, source), GFP_KERNEL)?;
        let mut slots = slots::<2>();
        let mut held = [ptr::null_mut(); 2];

        let mut pages = pool.alloc_bulk(&mut slots)?;
        for (held, page) in held.iter_mut().zip(pages.pages_mut()) {
            page.references().add(1, Relaxed);
            *held = page.as_ptr();
        }
        drop(pages);

        let mut result = Ok(());
        for raw in held {
            // SAFETY: The reference that was added above is the only one left.
            let page = unsafe { Page::<0>::from_raw(NonNull::new(raw).ok_or(EINVAL)?) };
            if page.references().load(Relaxed) != 1 {
                result = Err(EINVAL);
            }
        }
        result
    }

    #[test]
    fn surplus_pages_are_freed() -> Result {
        check_surplus(Pages::<0>)?;
        check_surplus(IgnoresBulk)
    }

    #[test]
    fn elements_of_a_bulk_are_freed_separately() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        let mut slots = slots::<4>();
        ledger.limit_bulk(2);
        ledger.refuse();

        let mut bulk = pool.alloc_bulk(&mut slots)?;
        assert_eq!(bulk.len(), 4);
        let first = bulk.take().ok_or(EINVAL)?;
        drop(bulk.take());
        assert_eq!(bulk.len(), 2);
        drop(bulk);
        assert_eq!(ledger.live(), 5);
        drop(first);
        assert_eq!(ledger.live(), 4);

        let mut bulk = pool.alloc_bulk(&mut slots)?;
        while bulk.take().is_some() {}
        assert!(bulk.is_empty());
        drop(bulk);
        assert_eq!(ledger.live(), 4);
        Ok(())
    }
}
