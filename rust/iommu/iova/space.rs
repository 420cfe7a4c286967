// SPDX-License-Identifier: GPL-2.0

//! The traits of domains and caches that ranges are allocated from.

use super::domain::Domain;

/// Frees the ranges of a [`Space`]. Only this library may implement or call it.
pub trait Free {
    /// Frees `size_pfns` page frames from `pfn`.
    ///
    /// Context: Any context except NMI. Never sleeps.
    ///
    /// # Safety
    ///
    /// The page frames must be allocated from `self` as one range of that size, and the caller must
    /// be the only owner.
    #[doc(hidden)]
    unsafe fn free(&self, pfn: usize, size_pfns: usize);

    /// Returns the underlying domain of the ranges.
    #[doc(hidden)]
    fn domain(&self) -> &Domain;
}

/// A domain, or a cache of a domain, that a [`Range`](super::Range) is allocated from.
pub trait Space: Free + Send + Sync {}

impl<S: Free + Send + Sync> Space for S {}
