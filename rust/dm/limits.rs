// SPDX-License-Identifier: GPL-2.0

//! The limits of a mapped device.

use kernel::page::PAGE_SIZE;
#[cfg(kscale_kunit)]
use kernel::prelude::*;

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    bio::SECTOR_SIZE, //
};

/// Bytes of a page.
const PAGE_BYTES: u32 = PAGE_SIZE as u32;

/// The queue limits of a mapped device, in [`Target::io_hints()`].
///
/// # Invariants
///
/// `limits` may be written to for `'a`.
///
/// [`Target::io_hints()`]: super::Target::io_hints
pub struct Limits<'a> {
    limits: NonNull<bindings::queue_limits>,
    _limits: PhantomData<&'a mut bindings::queue_limits>,
}

impl Limits<'_> {
    /// Wraps the limits.
    ///
    /// # Safety
    ///
    /// `limits` must be valid for reads and writes for as long as `self` lives.
    pub(super) unsafe fn new(limits: NonNull<bindings::queue_limits>) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            limits,
            _limits: PhantomData,
        }
    }

    /// Raises the block sizes and the minimum I/O size to at least `bytes`, a power of two.
    ///
    /// The block layer refuses the table otherwise.
    ///
    /// Context: Any. C: `dm_stack_bs_limits()`.
    pub fn stack_block_size(&mut self, bytes: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { bindings::dm_stack_bs_limits(self.limits.as_ptr(), bytes.get()) };
    }

    /// Lets nobody poll for the completion of bios.
    pub(super) fn disable_polling(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).features &= !bindings::BLK_FEAT_POLL };
    }

    /// Has no bio longer than `sectors`, or than a page or a logical block if these are more: the
    /// block layer has no lower limit.
    ///
    /// Device mapper itself splits longer ones, also those that a target must not split.
    ///
    /// Context: Any. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn limit_bio_sectors(&mut self, sectors: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            let lowest = (*limits).logical_block_size.max(PAGE_BYTES) / SECTOR_SIZE;
            (*limits).max_hw_sectors = (*limits).max_hw_sectors.min(sectors.get().max(lowest));
        }
    }

    /// Has no atomic write longer than `bytes`.
    ///
    /// Context: Any.
    pub fn limit_atomic_writes(&mut self, bytes: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).atomic_write_hw_max = (*limits).atomic_write_hw_max.min(bytes.get());
            (*limits).atomic_write_hw_unit_max =
                (*limits).atomic_write_hw_unit_max.min(bytes.get());
        }
    }

    /// Asks that memory for direct I/O be aligned to the logical block size, or to a page if that is
    /// less: the block layer has no higher limit.
    ///
    /// Context: Any. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn align_dma_to_logical_block_size(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            let bytes = (*limits).logical_block_size.min(PAGE_BYTES);
            (*limits).dma_alignment = bytes.saturating_sub(1);
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_limits)]
mod tests {
    use super::*;

    /// Returns the longest bio and the alignment, less 1, that a target gets which asks for bios of at
    /// most `sectors` on a device with blocks of `block_bytes`.
    fn limited(block_bytes: u32, sectors: u32) -> Result<(u32, u32)> {
        let mut limits = bindings::queue_limits {
            logical_block_size: block_bytes,
            max_hw_sectors: 2048,
            ..pin_init::zeroed()
        };
        // SAFETY: It is alive until this returns, and nobody else's.
        let mut wrapped = unsafe { Limits::new(NonNull::from(&mut limits)) };
        wrapped.limit_bio_sectors(NonZeroU32::new(sectors).ok_or(EINVAL)?);
        wrapped.align_dma_to_logical_block_size();
        Ok((limits.max_hw_sectors, limits.dma_alignment))
    }

    #[test]
    fn limits_are_such_as_the_block_layer_takes() -> Result {
        assert_eq!(limited(512, 1024)?, (1024, 511));
        assert_eq!(limited(4096, 4096)?, (2048, 4095));
        // It warns of less than a page, less than a block, and an alignment to more than a page.
        assert_eq!(limited(512, 1)?, (8, 511));
        assert_eq!(limited(8192, 1)?, (16, 4095));
        Ok(())
    }
}
