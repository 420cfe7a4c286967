// SPDX-License-Identifier: GPL-2.0

//! A range of addresses, which frees itself.

use core::{
    mem::ManuallyDrop,
    num::NonZeroUsize,
    ptr, //
};

use super::space::{
    Free,
    SpaceRef, //
};

/// Page frames that nobody else has, until this is dropped.
///
/// Do not forget it: what it has is never handed out again.
///
/// # Invariants
///
/// The page frames were allocated from `space` as one range of `size_pfns`, and `self` is who frees
/// them.
#[must_use = "the range goes back at once"]
pub struct Range<R: SpaceRef> {
    space: R,
    pfn: NonZeroUsize,
    size_pfns: usize,
}

impl<R: SpaceRef> Range<R> {
    /// Wraps a range.
    ///
    /// # Safety
    ///
    /// It must have been allocated from `space` with that size, and the caller gives it away.
    #[inline]
    pub(super) unsafe fn new(space: R, pfn: NonZeroUsize, size_pfns: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            space,
            pfn,
            size_pfns,
        }
    }

    /// Returns the number of the first page frame, which is not 0.
    ///
    /// Context: any.
    #[inline]
    pub fn pfn(&self) -> usize {
        self.pfn.get()
    }

    /// Returns how many page frames it has, which is what was asked for.
    ///
    /// Context: any.
    #[inline]
    pub fn size_pfns(&self) -> usize {
        self.size_pfns
    }

    /// Returns the address of the first page frame, as devices take it.
    ///
    /// Context: any. C: `iova_dma_addr()` in `include/linux/iova.h`.
    #[inline]
    pub fn addr(&self) -> u64 {
        // CAST: To 64 bits. No page frame has an address beyond those.
        (self.pfn.get() as u64) << self.space.space().domain().shift()
    }

    /// Gives up the range, without freeing it.
    #[inline]
    pub(super) fn into_parts(self) -> (R, NonZeroUsize, usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: It is not used again, as `this` is not dropped.
        let space = unsafe { ptr::read(&this.space) };
        (space, this.pfn, this.size_pfns)
    }

    /// Returns what the range is from.
    ///
    /// Context: any.
    #[inline]
    pub fn space(&self) -> &R::Space {
        self.space.space()
    }
}

/// Does not sleep, unless it drops the last reference to a domain or a cache.
impl<R: SpaceRef> Drop for Range<R> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants. `drop` runs once.
        unsafe { self.space.space().free(self.pfn.get(), self.size_pfns) };
    }
}
