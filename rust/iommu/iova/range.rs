// SPDX-License-Identifier: GPL-2.0

//! A range of addresses that is freed on drop.

use kernel::num::casts::FromSafeCast;

use core::{
    mem::ManuallyDrop,
    num::NonZeroUsize,
    ptr, //
};

use crate::sync::StableRef;

use super::space::{
    Free,
    Space, //
};

/// Page frames that the caller owns until this is dropped.
///
/// The page frames of a leaked range are never allocated again.
///
/// # Invariants
///
/// The page frames were allocated from `space` as one range of `size_pfns`, and only `self` frees
/// them.
#[must_use = "the range goes back at once"]
pub struct Range<R: StableRef<Target: Space>> {
    space: R,
    pfn: NonZeroUsize,
    size_pfns: usize,
}

impl<R: StableRef<Target: Space>> Range<R> {
    /// Wraps a range.
    ///
    /// # Safety
    ///
    /// The range must be allocated from `space` with that size, and the caller must give up the
    /// range.
    #[inline]
    pub(super) unsafe fn new(space: R, pfn: NonZeroUsize, size_pfns: usize) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            space,
            pfn,
            size_pfns,
        }
    }

    /// Returns the number of the first page frame, which is never 0.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn pfn(&self) -> usize {
        self.pfn.get()
    }

    /// Returns the number of page frames that the caller requested.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn size_pfns(&self) -> usize {
        self.size_pfns
    }

    /// Returns the address of the first page frame, for a device.
    ///
    /// Context: Any context. Never sleeps. C: `iova_dma_addr()` in `include/linux/iova.h`.
    #[inline]
    pub fn addr(&self) -> u64 {
        // The address of every page frame fits into 64 bits.
        u64::from_safe_cast(self.pfn.get()) << self.space.get_ref().domain().shift()
    }

    /// Disassembles the range without freeing it.
    #[inline]
    pub(super) fn into_parts(self) -> (R, NonZeroUsize, usize) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is not dropped, so `space` is not used again.
        let space = unsafe { ptr::read(&this.space) };
        (space, this.pfn, this.size_pfns)
    }

    /// Returns the domain or cache that the range was allocated from.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub(super) fn space(&self) -> &R::Target {
        self.space.get_ref()
    }
}

/// Does not sleep, unless it drops the last reference to a domain or cache.
impl<R: StableRef<Target: Space>> Drop for Range<R> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants. `drop` runs once.
        unsafe { self.space.get_ref().free(self.pfn.get(), self.size_pfns) };
    }
}
