// SPDX-License-Identifier: GPL-2.0

//! A domain, and allocation from its tree.

use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    types::Opaque, //
};

use core::{
    num::NonZeroUsize,
    ptr::NonNull, //
};

use crate::bindings;

use super::{
    range::Range,
    space::Free, //
};

/// The alignment of the first page frame of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alignment {
    /// No alignment.
    Any,
    /// A multiple of the size, rounded up to a power of two.
    Size,
}

/// An address space and the tree of its allocated ranges (`struct iova_domain`).
///
/// Created by a [`Builder`](super::Builder).
///
/// # Invariants
///
/// - `inner` was initialised by `init_iova_domain()` with a granule of 2^`shift` bytes (at most a
///   page) and `start_pfn`, and is not destroyed before `Drop`.
/// - `last_pfn` is less than `usize::MAX`, and its address fits into 64 bits.
/// - `start_pfn` is in `1..=last_pfn`.
/// - The tree holds the reserved ranges and the ranges that are allocated and not freed. The bounds
///   of these ranges do not change.
pub struct Domain {
    inner: Pin<KBox<Opaque<bindings::iova_domain>>>,
    shift: u32,
    start_pfn: usize,
    last_pfn: usize,
}

// SAFETY: An `iova_domain` belongs to no task: any task that can sleep may call
// `put_iova_domain()`.
unsafe impl Send for Domain {}

// SAFETY: There are three kinds of `&self` methods:
// - Methods that read `shift`, `start_pfn` and `last_pfn`, which nothing writes to.
// - `alloc_iova()` and `free_iova()`, which access the tree with `iova_rbtree_lock` held:
//   `__alloc_and_insert_iova_range()` and `free_iova()` in `drivers/iommu/iova.c`.
// - Methods of `CachedDomain`. It is created from an owned `Domain`, so `rcaches` is not written to
//   any more once it is shared. `__iova_rcache_insert()` and `__iova_rcache_get()` take the lock of
//   the CPU and that of the depot.
unsafe impl Sync for Domain {}

impl Domain {
    /// Creates a domain. See [`Builder::new`](super::Builder::new).
    pub(super) fn new(granule_bytes: usize, start_pfn: usize) -> Result<Self> {
        if !granule_bytes.is_power_of_two() || granule_bytes > PAGE_SIZE {
            return Err(EINVAL);
        }
        let shift = granule_bytes.trailing_zeros();
        // C's anchor node has the PFN `IOVA_ANCHOR`, the highest number.
        let last_pfn = (usize::MAX >> shift).min(usize::MAX - 1);
        if !(1..=last_pfn).contains(&start_pfn) {
            return Err(EINVAL);
        }

        let inner = KBox::pin_init(
            Opaque::ffi_init(|slot: *mut bindings::iova_domain| {
                // `put_iova_domain()` in `drivers/iommu/iova.c` reads fields that
                // `init_iova_domain()` does not set.
                //
                // SAFETY: `slot` is valid for writes, by the contract of `ffi_init()`.
                unsafe { slot.write_bytes(0, 1) };
                // SAFETY:
                // - `slot` was zeroed above, and does not move until it is dropped, as it is
                //   pinned.
                // - The granule is a power of two and at most a page, see above.
                unsafe { bindings::init_iova_domain(slot, granule_bytes, start_pfn) };
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: Initialised above. The numbers were checked above. The tree is empty.
        Ok(Self {
            inner,
            shift,
            start_pfn,
            last_pfn,
        })
    }

    /// Allocates a range of `size_pfns` page frames, none of them above `limit_pfn`.
    ///
    /// Searches downwards. The search starts at the last range that was allocated.
    ///
    /// Fails with [`EINVAL`] if `size_pfns` is 0, if there are fewer page frames between the
    /// domain's first one and `limit_pfn`, or if `limit_pfn` is above
    /// [`last_pfn()`](Self::last_pfn). Fails with [`ENOMEM`] if no gap is large enough, or memory
    /// is short. As in C, a failed allocation below 4 GiB makes all allocations of at least this
    /// size there fail until a range is freed, even with another limit.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the lock of the tree with interrupts
    /// off, and may search the whole tree. C: `alloc_iova()` in `drivers/iommu/iova.c`.
    #[inline]
    pub fn alloc(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        alignment: Alignment,
    ) -> Result<Range<&Self>> {
        let pfn = self.alloc_pfn(size_pfns, limit_pfn, alignment)?;
        // SAFETY: `alloc_pfn()` has just allocated it, and `free()` frees such ranges.
        Ok(unsafe { Range::new(self, pfn, size_pfns) })
    }

    /// Returns the number of the last page frame that has an address. This is the highest limit.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn last_pfn(&self) -> usize {
        self.last_pfn
    }

    /// Returns the size of a page frame in bytes.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn granule_bytes(&self) -> usize {
        1 << self.shift
    }

    /// Returns the binary logarithm of the granule. C: `iova_shift()` in `include/linux/iova.h`.
    #[inline]
    pub(super) fn shift(&self) -> u32 {
        self.shift
    }

    /// Returns the `struct iova_domain`.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::iova_domain {
        self.inner.get()
    }

    /// Checks that C's arithmetic does not overflow for a range of `size_pfns` below `limit_pfn`.
    #[inline]
    pub(super) fn check(&self, size_pfns: usize, limit_pfn: usize) -> Result {
        /// C shifts by the binary logarithm of the size, rounded up. It must be less than 64.
        const MAX_SIZE_PFNS: usize = 1 << (usize::BITS - 1);

        let fits = (1..=MAX_SIZE_PFNS).contains(&size_pfns)
            && (self.start_pfn..=self.last_pfn).contains(&limit_pfn)
            // OVERFLOW: `size_pfns` is at least 1, and `limit_pfn` at least `start_pfn`, see above.
            && size_pfns - 1 <= limit_pfn - self.start_pfn;
        if fits {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Allocates page frames. The caller frees them by [`free_pfn()`](Self::free_pfn).
    ///
    /// Fails as [`alloc()`](Self::alloc) does.
    #[inline]
    pub(super) fn alloc_pfn(
        &self,
        size_pfns: usize,
        limit_pfn: usize,
        alignment: Alignment,
    ) -> Result<NonZeroUsize> {
        self.check(size_pfns, limit_pfn)?;
        // SAFETY:
        // - The domain is initialised by the type invariants. The library holds a reference to the
        //   cache of nodes.
        // - `check()` has checked size and limit.
        // INVARIANT: The tree has one more range.
        let iova = unsafe {
            bindings::alloc_iova(
                self.as_raw(),
                size_pfns,
                limit_pfn,
                alignment == Alignment::Size,
            )
        };
        let iova = NonNull::new(iova).ok_or(ENOMEM)?;
        // SAFETY: The node is in the tree until it is freed, and its bounds do not change, by the
        // type invariants.
        let pfn = unsafe { (*iova.as_ptr()).pfn_lo };
        // Never 0, as it is at least `start_pfn`.
        NonZeroUsize::new(pfn).ok_or(ENOMEM)
    }

    /// Frees page frames.
    ///
    /// Context: Any context except NMI. Never sleeps.
    ///
    /// # Safety
    ///
    /// `pfn` must be from [`alloc_pfn()`](Self::alloc_pfn), and must not have been freed.
    #[inline]
    pub(super) unsafe fn free_pfn(&self, pfn: usize) {
        // SAFETY: The domain is initialised by the type invariants.
        // INVARIANT: Nothing uses the range any more, by the safety requirements.
        unsafe { bindings::free_iova(self.as_raw(), pfn) };
    }
}

impl Free for Domain {
    #[inline]
    unsafe fn free(&self, pfn: usize, _size_pfns: usize) {
        // SAFETY: Ranges of a domain are from `alloc_pfn()`. The rest is by the safety
        // requirements.
        unsafe { self.free_pfn(pfn) };
    }

    #[inline]
    fn domain(&self) -> &Domain {
        self
    }
}

/// Sleeps.
impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: The domain is initialised by the type invariants. Nothing uses it any more: all
        // ranges are dropped or leaked. The library holds a reference to the slab caches.
        unsafe { bindings::put_iova_domain(self.as_raw()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_domain)]
mod tests {
    use super::*;

    use super::super::{
        testing::all_of,
        Builder, //
    };

    use core::mem;

    #[test]
    fn sizes_and_limits_are_checked() -> Result {
        const START: usize = 10;
        const LAST: usize = usize::MAX / PAGE_SIZE;
        // Size, limit, first page frame or `None` if the allocation fails.
        const ROWS: [(usize, usize, Option<usize>); 15] = [
            (1, 10, Some(10)),
            (1, 9, None),
            (1, 0, None),
            (0, 100, None),
            (91, 100, Some(10)),
            (92, 100, None),
            (101, 100, None),
            (102, 100, None),
            (1, LAST, Some(LAST)),
            (1, LAST + 1, None),
            (1, usize::MAX, None),
            (LAST - 9, LAST, Some(10)),
            (LAST - 8, LAST, None),
            (usize::MAX, LAST, None),
            (usize::MAX, usize::MAX, None),
        ];
        let domain = Builder::new(PAGE_SIZE, START)?.build();
        assert_eq!(domain.last_pfn(), LAST);

        for (size_pfns, limit_pfn, pfn) in ROWS {
            let range = domain.alloc(size_pfns, limit_pfn, Alignment::Any);
            assert_eq!(range.map(|range| range.pfn()), pfn.ok_or(EINVAL));
        }
        Ok(())
    }

    /// A size for which C would shift by 64 bits is refused before.
    #[test]
    fn largest_size_is_half_of_the_pfns() -> Result {
        const HALF: usize = 1 << 63;
        let domain = Builder::new(1, 1)?.build();
        let limit_pfn = domain.last_pfn();
        assert_eq!(limit_pfn, usize::MAX - 1);

        let alloc = |size_pfns, alignment| {
            let range = domain.alloc(size_pfns, limit_pfn, alignment);
            range.map(|range| range.pfn())
        };
        assert_eq!(alloc(HALF + 1, Alignment::Size), Err(EINVAL));
        assert_eq!(alloc(HALF + 1, Alignment::Any), Err(EINVAL));
        assert_eq!(alloc(HALF, Alignment::Any), Ok(HALF - 1));
        // Above 2^63 one page frame is missing, and below it the first one.
        assert_eq!(alloc(HALF, Alignment::Size), Err(ENOMEM));
        assert_eq!(alloc(HALF / 2, Alignment::Size), Ok(HALF));
        Ok(())
    }

    #[test]
    fn ranges_have_the_requested_alignment() -> Result {
        // Size, alignment.
        const ROWS: [(usize, usize); 6] = [(1, 1), (2, 2), (3, 4), (4, 4), (33, 64), (100, 128)];
        let domain = Builder::new(PAGE_SIZE, 1)?.build();

        for (size_pfns, multiple) in ROWS {
            let odd = domain.alloc(1, 4098, Alignment::Any)?;
            let range = domain.alloc(size_pfns, 4098, Alignment::Size)?;
            assert_eq!(range.pfn() % multiple, 0);
            assert!(range.pfn() + size_pfns <= odd.pfn());
            assert_eq!(range.size_pfns(), size_pfns);

            let next = domain.alloc(size_pfns, range.pfn() - 1, Alignment::Any)?;
            assert_eq!(next.pfn(), range.pfn() - size_pfns);
        }
        Ok(())
    }

    #[test]
    fn drop_frees_the_range() -> Result {
        let domain = Builder::new(PAGE_SIZE, 1)?.build();

        for _ in 0..3 {
            let all = domain.alloc(100, 100, Alignment::Any)?;
            assert_eq!(all.pfn(), 1);
            let one = domain.alloc(1, 100, Alignment::Any);
            assert_eq!(one.map(|range| range.pfn()), Err(ENOMEM));
            drop(all);
        }
        assert_eq!(all_of(&domain, 100)?.len(), 100);
        assert_eq!(all_of(&domain, 100)?.len(), 100);
        Ok(())
    }

    #[test]
    fn addresses_are_page_frames_times_the_granule() -> Result {
        for granule_bytes in [1, 64, PAGE_SIZE] {
            let domain = Builder::new(granule_bytes, 5)?.build();
            let range = domain.alloc(1, 5, Alignment::Any)?;

            assert_eq!(domain.granule_bytes(), granule_bytes);
            assert_eq!(range.addr(), 5 * granule_bytes as u64);
        }
        Ok(())
    }

    #[test]
    fn domain_works_after_a_move() -> Result {
        let domain = KBox::new(Builder::new(PAGE_SIZE, 1)?.build(), GFP_KERNEL)?;
        mem::forget(domain.alloc(9, 9, Alignment::Any)?);

        let domain = KBox::into_inner(domain);
        assert_eq!(all_of(&domain, 19)?.len(), 10);
        let taken = domain.alloc(1, 9, Alignment::Any);
        assert_eq!(taken.map(|range| range.pfn()), Err(ENOMEM));
        Ok(())
    }
}
