// SPDX-License-Identifier: GPL-2.0

//! The pool itself.

use kernel::{
    bindings::gfp_t,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

use core::{
    ffi::c_void,
    num::NonZeroU16,
    ptr::{
        self,
        NonNull, //
    },
};

use super::Allocator;

use crate::{
    bindings,
    gfp::Gfp,
    new_percpu_counter,
    page::Page,
    percpu_counter::PerCpuCounter, //
};

/// Where the pages that a [`Mempool`] gave out came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Pages from [`Allocator::alloc_bulk`].
    pub bulk_pages: u64,
    /// Pages from [`Allocator::alloc`].
    pub single_pages: u64,
    /// Pages from the reserve.
    pub reserve_pages: u64,
}

/// A pool that always has a page for those who give theirs back.
///
/// # Invariants
///
/// - `inner` was initialised by a successful `mempool_init_noprof()` with `alloc_fn::<A>()`,
///   `free_fn::<A>()` and the address of the pool, and stays pinned until `PinnedDrop` runs.
/// - The reserve owns its elements, which came from `Page::into_raw()`.
/// - `inner.min_nr` is in `1..=Self::MAX_MIN_NR`, and changes only while the pool is borrowed
///   mutably.
#[pin_data(PinnedDrop)]
pub struct Mempool<A: Allocator> {
    /// Initialised after all other fields, as that calls back.
    #[pin]
    pub(super) inner: Opaque<bindings::mempool>,
    #[pin]
    pub(super) allocator: A,
    /// Pages given out.
    #[pin]
    pub(super) taken: PerCpuCounter,
    /// Those of them that came from [`Allocator::alloc_bulk`].
    #[pin]
    pub(super) bulk: PerCpuCounter,
    /// Those of them that came from [`Allocator::alloc`].
    #[pin]
    single: PerCpuCounter,
}

// SAFETY: `mempool_exit()` may run in any task, and `A` is `Send`.
unsafe impl<A: Allocator> Send for Mempool<A> {}

// SAFETY: C accesses what `&self` methods change under `mempool::lock`, and `A` is `Sync`.
unsafe impl<A: Allocator> Sync for Mempool<A> {}

impl<A: Allocator> Mempool<A> {
    /// The largest reserve in pages: as many as fit into an array from `kmalloc()`.
    pub const MAX_MIN_NR: usize =
        (PAGE_SIZE << bindings::MAX_PAGE_ORDER) / size_of::<*mut c_void>();

    /// Statistics are read rarely.
    pub(super) const STATS_BATCH: NonZeroU16 = NonZeroU16::MAX;

    /// Creates a pool with `min_nr` pages in reserve.
    ///
    /// Fails with [`EINVAL`] if `min_nr` is 0 or more than [`MAX_MIN_NR`](Self::MAX_MIN_NR), with
    /// [`ENOMEM`] if the reserve cannot be filled, and as `allocator` does.
    ///
    /// Context: process. May sleep.
    pub fn new<E>(min_nr: usize, allocator: impl PinInit<A, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(&this in Self {
            allocator <- allocator,
            taken <- new_percpu_counter!(0),
            bulk <- new_percpu_counter!(0),
            single <- new_percpu_counter!(0),
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::mempool| {
                let min_nr = Self::checked_min_nr(min_nr)?;

                // `mempool_init_node()` in `mm/mempool.c` relies on it.
                //
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write_bytes(0, 1) };

                // SAFETY:
                // - `slot` was zeroed above, and stays put until `PinnedDrop`, as `inner` is
                //   structurally pinned.
                // - `alloc_fn()` and `free_fn()` may be called with `this` from now on, as the
                //   fields above are initialised, until `PinnedDrop` has run.
                // - `min_nr` is positive and its array not too large for `kmalloc()`.
                // INVARIANT: `inner` is initialised if this closure returns `Ok`. The reserve
                // is what `alloc_fn()` returned.
                to_result(unsafe {
                    bindings::mempool_init_noprof(
                        slot,
                        min_nr,
                        Some(alloc_fn::<A>),
                        Some(free_fn::<A>),
                        this.as_ptr().cast(),
                    )
                })
            }),
        })
    }

    /// Returns `min_nr` as C takes it.
    fn checked_min_nr(min_nr: usize) -> Result<i32> {
        match i32::try_from(min_nr) {
            Ok(nr) if (1..=Self::MAX_MIN_NR).contains(&min_nr) => Ok(nr),
            _ => Err(EINVAL),
        }
    }

    /// Returns how many pages the full reserve has.
    ///
    /// Context: any.
    pub fn min_nr(&self) -> usize {
        // SAFETY: `inner` is initialised, and nobody writes `min_nr` while `self` is borrowed, by
        // the type invariants.
        let min_nr = unsafe { (*self.inner.get()).min_nr };

        // CAST: Positive by the type invariants.
        min_nr as usize
    }

    /// Returns where new pages come from.
    ///
    /// Context: any.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }

    /// Changes the size of the reserve.
    ///
    /// Returns without an error if memory for a larger reserve is short: pages that come back will
    /// fill it.
    ///
    /// Fails with [`EINVAL`] if `min_nr` is 0 or more than [`MAX_MIN_NR`](Self::MAX_MIN_NR), and
    /// with [`ENOMEM`] if there is no memory for the list of pages; the size is the old one then.
    ///
    /// Context: process. May sleep.
    pub fn resize(self: Pin<&mut Self>, min_nr: usize) -> Result {
        let min_nr = Self::checked_min_nr(min_nr)?;

        // SAFETY: `inner` is initialised by the type invariants, and `min_nr` is positive.
        // INVARIANT: `min_nr` was checked, and the pool is borrowed mutably.
        to_result(unsafe { bindings::mempool_resize(self.inner.get(), min_nr) })
    }

    /// Returns where pages came from since the pool was created.
    ///
    /// Exact if no page is being taken meanwhile.
    ///
    /// Context: any but NMI. Never sleeps. Visits every online CPU's cache lines.
    pub fn stats(&self) -> Stats {
        // Pages are counted as taken last, so count those first, or the reserve seems to be used.
        let taken = self.taken.sum();
        let bulk = self.bulk.sum();
        let single = self.single.sum();
        // OVERFLOW: Counts of pages that existed are far from 2^63.
        let reserve = taken.wrapping_sub(bulk).wrapping_sub(single);

        // CAST: Not negative.
        Stats {
            bulk_pages: bulk.max(0) as u64,
            single_pages: single.max(0) as u64,
            reserve_pages: reserve.max(0) as u64,
        }
    }
}

#[pinned_drop]
impl<A: Allocator> PinnedDrop for Mempool<A> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `inner` is initialised by the type invariants, and `&mut self` proves that no
        // other user is left. It calls `free_fn()` while the other fields are still there.
        unsafe { bindings::mempool_exit(self.inner.get()) };
    }
}

/// Allocates an element for C.
///
/// # Safety
///
/// `pool` must be the address of a `Mempool<A>` whose `allocator` and `single` are initialised.
unsafe extern "C" fn alloc_fn<A: Allocator>(gfp: gfp_t, pool: *mut c_void) -> *mut c_void {
    let pool = pool.cast::<Mempool<A>>();
    // SAFETY: By the safety requirements.
    let allocator = unsafe { &(*pool).allocator };
    // SAFETY: By the safety requirements.
    let single = unsafe { &(*pool).single };
    let gfp = Gfp::from_raw(gfp);

    let Some(page) = allocator.alloc(gfp) else {
        return ptr::null_mut();
    };

    // Set by `mempool_adjust_gfp()` in `mm/mempool.c`, but not when the reserve is filled.
    if gfp.contains(Gfp::NORETRY) {
        single.add_batch(1, Mempool::<A>::STATS_BATCH);
    }
    page.into_raw().as_ptr().cast()
}

/// Frees an element that C has no room for.
///
/// # Safety
///
/// - `pool` must be the address of a `Mempool<A>` whose `allocator` is initialised.
/// - `element` must come from [`Page::into_raw`], and the caller gives it away.
unsafe extern "C" fn free_fn<A: Allocator>(element: *mut c_void, pool: *mut c_void) {
    // SAFETY: By the safety requirements.
    let allocator = unsafe { &(*pool.cast::<Mempool<A>>()).allocator };

    if let Some(page) = NonNull::new(element.cast()) {
        // SAFETY: By the safety requirements.
        allocator.free(unsafe { Page::from_raw(page) });
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool)]
mod tests {
    use super::*;

    use super::super::counting::{
        counting_pool,
        Counting,
        Ledger, //
    };

    #[test]
    fn the_reserve_is_full_at_once_and_freed_on_drop() -> Result {
        for min_nr in [1, 2, 256] {
            let ledger = Ledger::new()?;

            let pool = counting_pool(min_nr, &ledger)?;

            assert_eq!(pool.min_nr(), min_nr);
            assert_eq!(ledger.live(), min_nr);
            drop(pool);
            assert_eq!(ledger.live(), 0);
        }
        Ok(())
    }

    #[test]
    fn senseless_sizes_are_refused() -> Result {
        const MAX: usize = Mempool::<Counting>::MAX_MIN_NR;
        let ledger = Ledger::new()?;

        for min_nr in [0, MAX + 1, i32::MAX as usize + 1, 1 << 32, usize::MAX] {
            assert_eq!(counting_pool(min_nr, &ledger).err(), Some(EINVAL));
        }

        assert_eq!(ledger.live(), 0);
        Ok(())
    }

    #[test]
    fn a_reserve_that_cannot_be_filled_leaks_nothing() -> Result {
        let ledger = Ledger::new()?;
        ledger.limit_reserve(7);

        assert_eq!(counting_pool(8, &ledger).err(), Some(ENOMEM));

        assert_eq!(ledger.live(), 0);
        Ok(())
    }

    #[test]
    fn resize_changes_the_reserve() -> Result {
        let ledger = Ledger::new()?;
        let mut pool = counting_pool(4, &ledger)?;

        for min_nr in [9, 1, 4] {
            pool.as_mut().resize(min_nr)?;
            assert_eq!(pool.min_nr(), min_nr);
            assert_eq!(ledger.live(), min_nr);
        }

        assert_eq!(pool.as_mut().resize(0), Err(EINVAL));
        assert_eq!(pool.as_mut().resize(usize::MAX), Err(EINVAL));
        assert_eq!(pool.min_nr(), 4);
        Ok(())
    }
}
