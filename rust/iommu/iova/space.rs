// SPDX-License-Identifier: GPL-2.0

//! What ranges are from.

use kernel::sync::Arc;

use super::domain::Domain;

/// How a [`Space`] takes ranges back. For this library alone to implement and to call.
pub trait Free {
    /// Takes back `size_pfns` page frames from `pfn` on.
    ///
    /// Context: any but NMI. Never sleeps.
    ///
    /// # Safety
    ///
    /// They must have been allocated from `self` as one range of that size, and nobody else free
    /// them.
    #[doc(hidden)]
    unsafe fn free(&self, pfn: usize, size_pfns: usize);

    /// Returns the domain that the ranges are of in the end.
    #[doc(hidden)]
    fn domain(&self) -> &Domain;
}

/// What a [`Range`](super::Range) is allocated from, and goes back to: a domain, or a cache of one.
pub trait Space: Free + Send + Sync {}

impl<S: Free + Send + Sync> Space for S {}

/// What keeps a [`Space`] alive: a reference to it, or an [`Arc`].
///
/// # Safety
///
/// [`space`](Self::space) must always return the same space, wherever `self` is moved to.
pub unsafe trait SpaceRef {
    /// What the ranges are from.
    type Space: Space;

    /// Returns the space.
    ///
    /// Context: any.
    fn space(&self) -> &Self::Space;
}

// SAFETY: A reference does not change what it refers to.
unsafe impl<S: Space> SpaceRef for &S {
    type Space = S;

    #[inline]
    fn space(&self) -> &S {
        self
    }
}

// SAFETY: An `Arc` does not change what it refers to.
unsafe impl<S: Space> SpaceRef for Arc<S> {
    type Space = S;

    #[inline]
    fn space(&self) -> &S {
        self
    }
}
