// SPDX-License-Identifier: GPL-2.0

//! Many pages of a memory pool at once.

use kernel::prelude::*;

use core::mem;

use super::{
    Allocator,
    Mempool, //
};

use crate::{
    bindings,
    gfp::{
        noio_scope,
        Gfp, //
    },
    page::Page,
};

impl<A: Allocator> Mempool<A> {
    /// As the first pass of `mempool_alloc_bulk_noprof()` in `mm/mempool.c`: neither waits for
    /// memory nor uses reserves other than the pool's.
    const FIRST_PASS: Gfp = Gfp::NOWAIT.union(Gfp::NORETRY).union(Gfp::NOMEMALLOC);

    /// Takes `slots.len()` pages, all of them or none.
    ///
    /// They come from [`Allocator::alloc_bulk`], the rest from [`Allocator::alloc`] and the rest of
    /// that from the reserve. If it has too few, waits without taking any of them: no two callers
    /// ever wait for what the other holds, unless one of them came with pages of the pool. Never
    /// starts I/O for memory, whatever the caller's context.
    ///
    /// `slots` is where the pages are kept meanwhile: a call that must not fail cannot allocate
    /// room for them.
    ///
    /// Fails with [`EINVAL`] if `slots` is empty or longer than [`min_nr()`](Self::min_nr), which
    /// could wait for ever, or holds a page already.
    ///
    /// Context: process. May sleep.
    pub fn alloc_bulk<'a>(&'a self, slots: &'a mut [Option<Page>]) -> Result<Bulk<'a, A>> {
        if slots.iter().any(Option::is_some) {
            return Err(EINVAL);
        }
        self.fill(slots)?;

        // INVARIANT: `fill()` put a page into every slot.
        Ok(Bulk { pool: self, slots })
    }

    /// Puts a page into each of `slots`, which are empty.
    pub(super) fn fill(&self, slots: &mut [Option<Page>]) -> Result {
        let wanted = slots.len();
        if wanted == 0 || wanted > self.min_nr() {
            return Err(EINVAL);
        }

        // `mempool_alloc_bulk_noprof()` in `mm/mempool.c` always uses `GFP_KERNEL`.
        noio_scope(|| {
            self.allocator.alloc_bulk(Self::FIRST_PASS, slots);
            let populated = leading_pages(slots);
            let rest = slots.get_mut(populated..).unwrap_or_default();

            if !rest.is_empty() {
                self.release(rest);

                // SAFETY:
                // - `inner` is initialised by the type invariants.
                // - `rest` is valid for writes of `rest.len()` pointers, as `Option<Page>` has the
                //   layout of a pointer. No page is overwritten, as `release()` left none.
                // - At most `min_nr` elements are taken, checked above; `min_nr` cannot shrink
                //   while `self` is borrowed, by the type invariants.
                // INVARIANT: It fills `rest` with elements, which come from `Page::into_raw()`, in
                // `alloc_fn()` or by the type invariants, and gives them to its caller.
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

            // CAST: As above.
            self.bulk.add_batch(populated as i64, Self::STATS_BATCH);
            self.taken.add_batch(wanted as i64, Self::STATS_BATCH);
        });
        Ok(())
    }

    /// Returns the pages in `slots` to the reserve, and those it has no room for to the allocator.
    pub(super) fn empty(&self, slots: &mut [Option<Page>]) {
        let populated = leading_pages(slots);
        let mut absorbed = 0;

        // With no elements at all, C may still read the first.
        if populated != 0 {
            // SAFETY:
            // - `inner` is initialised by the type invariants.
            // - The first `populated` of `slots` are pages, and so have the layout of a pointer
            //   that is not `NULL`.
            // INVARIANT: The pages that it takes are forgotten below.
            //
            // CAST: If there were more than 2^32, those beyond would go to the allocator.
            absorbed = unsafe {
                bindings::mempool_free_bulk(
                    self.inner.get(),
                    slots.as_mut_ptr().cast(),
                    populated as u32,
                )
            } as usize;
        }

        // C does not clear them, whatever its documentation says.
        slots
            .iter_mut()
            .take(absorbed)
            .for_each(|slot| mem::forget(slot.take()));
        self.release(slots.get_mut(absorbed..).unwrap_or_default());
    }

    /// Gives the pages in `slots` to the allocator, and leaves none.
    fn release(&self, slots: &mut [Option<Page>]) {
        if slots.iter().any(Option::is_some) {
            self.allocator.free_bulk(slots);
            slots.fill_with(|| None);
        }
    }
}

/// Returns how many of `slots`, from the first on, hold a page.
fn leading_pages(slots: &[Option<Page>]) -> usize {
    slots.iter().take_while(|slot| slot.is_some()).count()
}

/// Pages from a [`Mempool`], returned to it on drop.
///
/// Do not forget it: its pages would be missing from the reserve from then on.
///
/// # Invariants
///
/// Each of `slots` holds a page.
#[must_use = "the pages go back to their pool at once"]
pub struct Bulk<'a, A: Allocator> {
    pool: &'a Mempool<A>,
    slots: &'a mut [Option<Page>],
}

impl<A: Allocator> Bulk<'_, A> {
    /// Returns the pages.
    ///
    /// Context: any.
    pub fn pages(&self) -> impl Iterator<Item = &Page> {
        self.slots.iter().flatten()
    }

    /// Returns the pages for writing.
    ///
    /// Context: any.
    pub fn pages_mut(&mut self) -> impl Iterator<Item = &mut Page> {
        self.slots.iter_mut().flatten()
    }
}

impl<A: Allocator> Drop for Bulk<'_, A> {
    fn drop(&mut self) {
        self.pool.empty(self.slots);
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool_bulk)]
mod tests {
    use super::{
        super::{
            counting::{
                counting_pool,
                Counting,
                Ledger, //
            },
            PageAllocator,
            Stats, //
        },
        *,
    };

    use kernel::{
        sync::{
            atomic::Relaxed,
            Arc,
            Completion, //
        },
        workqueue,
    };

    /// Room for the pages of the largest test.
    fn slots<const N: usize>() -> [Option<Page>; N] {
        [const { None }; N]
    }

    fn stats(bulk_pages: u64, single_pages: u64, reserve_pages: u64) -> Stats {
        Stats {
            bulk_pages,
            single_pages,
            reserve_pages,
        }
    }

    #[test]
    fn each_source_gives_the_rest_of_the_one_before() -> Result {
        // Pages from the bulk allocator, refuses single ones, where 8 pages come from.
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
            pages
                .pages_mut()
                .for_each(|page| page.as_mut_slice().fill(0xaa));
            assert_eq!(pages.pages().count(), 8);
            drop(pages);

            assert!(pool.stats() == expected);
            assert!(slots.iter().all(Option::is_none));
            assert_eq!(ledger.live(), 8);
            drop(pool);
            assert_eq!(ledger.live(), 0);
        }
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
            let pages = pool.alloc_bulk(&mut slots)?;
            assert!(pages
                .pages()
                .all(|page| page.references().load(Relaxed) == 1));
        }
        Ok(())
    }

    #[test]
    fn lengths_from_one_to_the_reserve_are_taken() -> Result {
        // Length, accepted by a pool of 4.
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
    fn a_page_that_is_in_the_way_is_not_lost() -> Result {
        let pool = counting_pool(2, &Ledger::new()?)?;
        let mut slots = slots::<2>();
        slots[1] = Some(Page::alloc(Gfp::KERNEL)?);

        assert_eq!(pool.alloc_bulk(&mut slots).err(), Some(EINVAL));

        assert!(slots[1].is_some());
        Ok(())
    }

    #[test]
    fn an_allocator_that_leaves_gaps_gets_its_pages_back() -> Result {
        let ledger = Ledger::new()?;
        let pool = counting_pool(4, &ledger)?;
        let mut slots = slots::<4>();
        ledger.limit_bulk(3);
        ledger.leave_gap();
        ledger.refuse();

        let pages = pool.alloc_bulk(&mut slots)?;

        assert_eq!(ledger.live(), 4);
        drop(pages);
        assert!(pool.stats() == stats(0, 0, 4));
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
    fn the_page_allocator_gives_its_pages_in_bulk() -> Result {
        let pool = KBox::pin_init(Mempool::new(256, PageAllocator), GFP_KERNEL)?;
        let mut slots = slots::<256>();

        drop(pool.alloc_bulk(&mut slots)?);

        let stats = pool.stats();
        assert_eq!(
            stats.bulk_pages + stats.single_pages + stats.reserve_pages,
            256
        );
        assert!(stats.bulk_pages > 0);
        Ok(())
    }

    #[test]
    fn tasks_that_each_want_the_whole_reserve_take_turns() -> Result {
        const TASKS: usize = 4;
        const ROUNDS: usize = 100;
        const LEN: usize = 8;
        let ledger = Ledger::new()?;
        let pool = Arc::pin_init(Mempool::new(LEN, Counting::new(ledger.clone())), GFP_KERNEL)?;
        ledger.limit_bulk(0);
        ledger.refuse();
        let mut slots = slots::<LEN>();
        let held = pool.alloc_bulk(&mut slots)?;

        let mut done = KVec::new();
        for _ in 0..TASKS {
            let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
            done.push(finished.clone(), GFP_KERNEL)?;
            let pool = pool.clone();
            workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
                let mut slots = [const { None }; LEN];
                for _ in 0..ROUNDS {
                    drop(pool.alloc_bulk(&mut slots));
                }
                drop(pool);
                finished.complete_all();
            })?;
        }
        drop(held);
        done.iter()
            .for_each(|finished| finished.wait_for_completion());

        assert!(pool.stats() == stats(0, 0, ((TASKS * ROUNDS + 1) * LEN) as u64));
        assert_eq!(ledger.live(), LEN);
        Ok(())
    }
}
