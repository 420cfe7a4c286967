// SPDX-License-Identifier: GPL-2.0

//! The memory pool type.

use kernel::{
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

use core::{
    ffi::c_void,
    marker::PhantomData, //
};

use super::source::Source;

use crate::bindings;

/// A memory pool with a reserve of preallocated elements.
///
/// # Invariants
///
/// - `inner` was initialised by a successful `mempool_init_noprof()` with the callbacks of `S` and
///   the data of `source`, and stays pinned until `PinnedDrop` runs.
/// - The reserve owns its elements, each valid for [`Memory::from_raw`](super::Memory::from_raw).
/// - `inner.min_nr` is in `1..=Self::MAX_MIN_NR`, and changes only while the pool is borrowed
///   mutably.
#[pin_data(PinnedDrop)]
pub struct Mempool<S: Source> {
    /// Initialised after `source`, because `mempool_init_noprof()` calls `S::ALLOC`.
    #[pin]
    pub(super) inner: Opaque<bindings::mempool>,
    #[pin]
    pub(super) source: S,
    /// Invariant: C calls the callbacks of `S`, so a pool of a subtype must not become a pool of
    /// `S`. Both may implement `Source`, with memory of different types.
    _invariant: PhantomData<fn(S) -> S>,
}

// SAFETY: `mempool_exit()` may run in any task. `S` and its memory are `Send`.
unsafe impl<S: Source> Send for Mempool<S> {}

// SAFETY: C protects the state that `&self` methods change with `mempool::lock`. `S` is `Sync`. A
// task may allocate memory that another task freed, because the memory is `Send`.
unsafe impl<S: Source> Sync for Mempool<S> {}

impl<S: Source> Mempool<S> {
    /// The largest reserve in elements, limited by the size of a `kmalloc()` array of pointers.
    pub const MAX_MIN_NR: usize =
        (PAGE_SIZE << bindings::MAX_PAGE_ORDER) / size_of::<*mut c_void>();

    /// Creates a pool with `min_nr` elements in reserve.
    ///
    /// Returns [`EINVAL`] if `min_nr` is 0 or more than [`MAX_MIN_NR`](Self::MAX_MIN_NR),
    /// [`ENOMEM`] if the reserve cannot be filled, and the error of `source` if its initialiser
    /// fails.
    ///
    /// Context: Process context. May sleep.
    pub fn new<E>(min_nr: usize, source: impl PinInit<S, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(&this in Self {
            source <- source,
            inner <- Opaque::try_ffi_init(move |slot: *mut bindings::mempool| {
                let min_nr = Self::checked_min_nr(min_nr)?;

                // SAFETY: `this` is the pool that is being initialised.
                let source = unsafe { &raw const (*this.as_ptr()).source };
                // SAFETY: `source` is initialised, see above, and structurally pinned.
                let data = unsafe { S::data(source) };

                // `mempool_init_node()` in `mm/mempool.c` requires a zeroed pool.
                //
                // SAFETY: `slot` is valid for writes, by the contract of `try_ffi_init()`.
                unsafe { slot.write_bytes(0, 1) };

                // SAFETY:
                // - `slot` was zeroed above. It does not move until `PinnedDrop`, because `inner`
                //   is structurally pinned.
                // - `ALLOC` and `FREE` may be called with `data` until the source is dropped, which
                //   is after `PinnedDrop` has run.
                // - `min_nr` is positive, and its array fits into `kmalloc()`.
                // INVARIANT: `inner` is initialised if this closure returns `Ok`. The reserve
                // contains the return values of `ALLOC`.
                to_result(unsafe {
                    bindings::mempool_init_noprof(slot, min_nr, S::ALLOC, S::FREE, data)
                })
            }),
            _invariant: PhantomData,
        })
    }

    /// Checks `min_nr` and converts it to the type in C.
    fn checked_min_nr(min_nr: usize) -> Result<i32> {
        match i32::try_from(min_nr) {
            Ok(nr) if (1..=Self::MAX_MIN_NR).contains(&min_nr) => Ok(nr),
            _ => Err(EINVAL),
        }
    }

    /// Returns the number of elements in the full reserve.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn min_nr(&self) -> usize {
        // SAFETY: `inner` is initialised, and `min_nr` is not written while `self` is borrowed, by
        // the type invariants.
        let min_nr = unsafe { (*self.inner.get()).min_nr };

        // CAST: Positive by the type invariants.
        min_nr as usize
    }

    /// Returns the source of new elements.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Resizes the reserve to `min_nr` elements.
    ///
    /// A larger reserve may be incomplete on success if memory is short: freed elements then fill
    /// the reserve. Until the reserve is full, an [`alloc_bulk`](Self::alloc_bulk) of more elements
    /// than it contains waits for memory.
    ///
    /// Returns [`EINVAL`] if `min_nr` is 0 or more than [`MAX_MIN_NR`](Self::MAX_MIN_NR), and
    /// [`ENOMEM`] if the array of elements cannot be allocated. An error leaves the size unchanged.
    ///
    /// Context: Process context. May sleep.
    pub fn resize(self: Pin<&mut Self>, min_nr: usize) -> Result {
        let min_nr = Self::checked_min_nr(min_nr)?;

        // SAFETY: `inner` is initialised by the type invariants, and `min_nr` is positive.
        // INVARIANT: `min_nr` was checked, and the pool is borrowed mutably.
        to_result(unsafe { bindings::mempool_resize(self.inner.get(), min_nr) })
    }
}

#[pinned_drop]
impl<S: Source> PinnedDrop for Mempool<S> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `inner` is initialised by the type invariants, and `&mut self` is the only
        // reference. The source is still valid for the calls of `FREE`.
        unsafe { bindings::mempool_exit(self.inner.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_mempool)]
mod tests {
    use super::*;

    use super::super::{
        test_allocator::{
            counting_pool,
            ByLedger,
            Ledger, //
        },
        Kmalloc,
        Pages,
        Slab, //
    };

    use crate::mm::slab::Cache;

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
    fn invalid_sizes_are_rejected() -> Result {
        const MAX: usize = Mempool::<ByLedger>::MAX_MIN_NR;
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

    /// Creates a pool, grows and then shrinks its reserve, and returns its size.
    fn resized<S: Source>(source: S) -> Result<usize> {
        let mut pool = KBox::pin_init(Mempool::new(2, source), GFP_KERNEL)?;

        pool.as_mut().resize(5)?;
        pool.as_mut().resize(3)?;
        Ok(pool.min_nr())
    }

    #[test]
    fn every_source_fills_a_reserve() -> Result {
        assert_eq!(resized(Kmalloc::<[u8; 100]>::new())?, 3);
        assert_eq!(
            resized(Slab::new(Cache::<[u8; 100]>::new(c"kunit-resized")?))?,
            3
        );
        assert_eq!(resized(Pages::<0>)?, 3);
        assert_eq!(resized(Pages::<2>)?, 3);
        Ok(())
    }
}
