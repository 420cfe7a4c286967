// SPDX-License-Identifier: GPL-2.0

//! The limits of a mapped device.

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::bindings;

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

    /// Raises the block sizes and the minimum I/O size to at least `bytes`.
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

    /// Has no bio longer than `sectors`.
    ///
    /// Device mapper itself splits longer ones, also those that a target must not split.
    ///
    /// Context: Any.
    pub fn limit_bio_sectors(&mut self, sectors: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limit = &raw mut (*self.limits.as_ptr()).max_hw_sectors;
            *limit = (*limit).min(sectors.get());
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

    /// Asks that memory for direct I/O be aligned to the logical block size.
    ///
    /// Context: Any.
    pub fn align_dma_to_logical_block_size(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).dma_alignment = (*limits).logical_block_size.saturating_sub(1);
        }
    }
}
