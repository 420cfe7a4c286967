// SPDX-License-Identifier: GPL-2.0

//! A domain from which nothing is allocated yet.

use kernel::prelude::*;

use core::ops::RangeInclusive;

use crate::bindings;

use super::domain::Domain;

/// Builds a [`Domain`] with reserved page frames.
///
/// ```text
/// Builder::new()  --reserve()-->  Builder  --build()-->  Domain  --init_rcaches()-->  CachedDomain
/// ```
pub struct Builder {
    domain: Domain,
}

impl Builder {
    /// Creates a domain of the page frames from `start_pfn`, each of `granule_bytes`.
    ///
    /// Fails with [`EINVAL`] if `granule_bytes` is not a power of two or is more than a page. Fails
    /// with [`EINVAL`] if `start_pfn` is 0, which C returns for a failure, or beyond the end of the
    /// 64-bit address space. Fails with [`ENOMEM`] if memory is short.
    ///
    /// Context: Process context. May sleep. C: `init_iova_domain()` in `drivers/iommu/iova.c`.
    pub fn new(granule_bytes: usize, start_pfn: usize) -> Result<Self> {
        Ok(Self {
            domain: Domain::new(granule_bytes, start_pfn)?,
        })
    }

    /// Reserves `pfns`: they are never allocated.
    ///
    /// They may overlap other reserved page frames, and may be below `start_pfn`.
    ///
    /// Fails with [`EINVAL`] if `pfns` is empty, or its last page frame is beyond the end of the
    /// address space. Fails with [`ENOMEM`] if memory is short: some of `pfns` may be reserved
    /// then.
    ///
    /// Context: Any context except NMI. Never sleeps. Reads all reserved ranges. C:
    /// `reserve_iova()` in `drivers/iommu/iova.c`.
    pub fn reserve(&mut self, pfns: RangeInclusive<usize>) -> Result {
        let (first, last) = (*pfns.start(), *pfns.end());
        if pfns.is_empty() || last > self.domain.last_pfn() {
            return Err(EINVAL);
        }

        // SAFETY: The domain is initialised by the type invariants of `Domain`. Nothing is
        // allocated from it, so this can extend reserved ranges only: the anchor is above
        // `last_pfn()`.
        let iova = unsafe { bindings::reserve_iova(self.domain.as_raw(), first, last) };
        if iova.is_null() {
            Err(ENOMEM)
        } else {
            Ok(())
        }
    }

    /// Returns the domain, which allocates the page frames that are not reserved.
    ///
    /// Context: Any context. Never sleeps.
    pub fn build(self) -> Domain {
        self.domain
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_builder)]
mod tests {
    use super::*;

    use super::super::{
        testing::all_of,
        Alignment, //
    };

    use kernel::page::PAGE_SIZE;

    #[test]
    fn invalid_domains_are_rejected() {
        // Granule, first page frame, accepted.
        const ROWS: [(usize, usize, bool); 13] = [
            (PAGE_SIZE, 1, true),
            (PAGE_SIZE, 0, false),
            (PAGE_SIZE, usize::MAX / PAGE_SIZE, true),
            (PAGE_SIZE, usize::MAX / PAGE_SIZE + 1, false),
            (PAGE_SIZE, usize::MAX, false),
            (1, 1, true),
            (1, usize::MAX - 1, true),
            (1, usize::MAX, false),
            (512, 1, true),
            (0, 1, false),
            (3, 1, false),
            (2 * PAGE_SIZE, 1, false),
            (1 << 63, 1, false),
        ];

        for (granule_bytes, start_pfn, accepted) in ROWS {
            let result = Builder::new(granule_bytes, start_pfn).map(drop);
            assert_eq!(result, if accepted { Ok(()) } else { Err(EINVAL) });
        }
    }

    #[test]
    fn invalid_reservations_are_rejected() -> Result {
        const LAST: usize = usize::MAX / PAGE_SIZE;
        // First, last, accepted.
        const ROWS: [(usize, usize, bool); 7] = [
            (0, 0, true),
            (5, 5, true),
            (5, 4, false),
            (0, LAST, true),
            (LAST, LAST, true),
            (1, LAST + 1, false),
            (usize::MAX, usize::MAX, false),
        ];

        for (first, last, accepted) in ROWS {
            let result = Builder::new(PAGE_SIZE, 1)?.reserve(first..=last);
            assert_eq!(result, if accepted { Ok(()) } else { Err(EINVAL) });
        }
        Ok(())
    }

    /// C's anchor node is at the highest number.
    #[test]
    fn the_anchor_of_single_bytes_cannot_be_reserved() -> Result {
        let mut builder = Builder::new(1, 1)?;

        assert_eq!(builder.reserve(1..=usize::MAX), Err(EINVAL));
        builder.reserve(2..=usize::MAX - 1)?;

        let domain = builder.build();
        let only = domain.alloc(1, usize::MAX - 1, Alignment::Any)?;
        assert_eq!((only.pfn(), only.addr()), (1, 1));
        Ok(())
    }

    #[test]
    fn reserved_ranges_are_not_allocated() -> Result {
        let mut builder = Builder::new(PAGE_SIZE, 4)?;
        // Below, at and across both ends, adjacent to each other, and twice.
        for pfns in [0..=4, 7..=7, 10..=12, 11..=14, 9..=9, 10..=10, 20..=99] {
            builder.reserve(pfns)?;
        }

        let handed_out = all_of(&builder.build(), 20)?;

        assert_eq!(&handed_out[..], &[19, 18, 17, 16, 15, 8, 6, 5]);
        Ok(())
    }

    #[test]
    fn builder_is_dropped_without_build() -> Result {
        let mut builder = Builder::new(PAGE_SIZE, 1)?;
        builder.reserve(1..=9)?;
        drop(builder);
        Ok(())
    }
}
