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
    block::bio::SECTOR_SIZE, //
};

/// Bytes of a page.
const PAGE_BYTES: u32 = PAGE_SIZE as u32;

/// The queue limits of a mapped device, in [`Target::io_hints()`].
///
/// # Invariants
///
/// `limits` may be written to for `'a`.
///
/// [`Target::io_hints()`]: crate::block::dm::Target::io_hints
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

    /// Raises the block sizes and the minimum I/O size to at least `bytes`, a power of two of at
    /// most a page.
    ///
    /// The block layer refuses the table if `bytes` is more than a page, or not a power of two.
    ///
    /// Context: Any context. Never sleeps. C: `dm_stack_bs_limits()`.
    pub fn stack_block_size(&mut self, bytes: NonZeroU32) {
        let bytes = match bytes.get() {
            bytes @ ..=PAGE_BYTES if bytes.is_power_of_two() => bytes,
            // The block layer refuses this size at once, also after a later call. Other sizes would
            // make it warn, if a device has such a small `max_hw_sectors`, or divide by 0:
            // `blk_stack_limits()` adds an offset to the size, and divides by the sum.
            _ => 2 * bindings::BLK_MAX_BLOCK_SIZE,
        };
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { bindings::dm_stack_bs_limits(self.limits.as_ptr(), bytes) };
    }

    /// Clears `BLK_FEAT_POLL`.
    pub(super) fn disable_polling(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).features &= !bindings::BLK_FEAT_POLL };
    }

    /// Caps `max_hw_sectors` at `sectors`, or at the largest block size of the block layer if that
    /// is more, and at 4 GiB less a sector.
    ///
    /// The block layer refuses a limit below the block size, and another line of the table may have
    /// such blocks. Device mapper itself splits longer bios, also bios that a target must not
    /// split.
    ///
    /// Context: Any context. Never sleeps. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn limit_bio_sectors(&mut self, sectors: NonZeroU32) {
        // `lowest` is at least a page, too.
        let lowest = bindings::BLK_MAX_BLOCK_SIZE / SECTOR_SIZE;
        // The block layer converts the limit to 32 bits of bytes.
        let sectors = sectors.get().clamp(lowest, u32::MAX / SECTOR_SIZE);
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            (*limits).max_hw_sectors = (*limits).max_hw_sectors.min(sectors);
        }
    }

    /// Sets the length of the chunks that bios should not cross, for layers above.
    ///
    /// Disables atomic writes if the devices have a boundary for these that does not fit. On a
    /// zoned device, where a chunk is a zone, device mapper refuses the table for another length.
    ///
    /// Context: Any context. Never sleeps.
    /// C: `blk_validate_atomic_write_limits()` in `block/blk-settings.c`.
    pub fn set_chunk_sectors(&mut self, sectors: NonZeroU32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        let limits = unsafe { self.limits.as_mut() };

        limits.chunk_sectors = sectors.get();
        // The block layer warns of the limits of several lines in which they do not fit.
        if !chunk_fits_boundary(sectors.get(), limits.atomic_write_hw_boundary / SECTOR_SIZE) {
            disable_atomic_writes(limits);
        }
    }

    /// Sets the preferred minimum length of I/O in bytes, at most 2 GiB.
    ///
    /// The block layer raises it to the physical block size.
    ///
    /// Context: Any context. Never sleeps. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn set_io_min(&mut self, bytes: u32) {
        // `blk_stack_limits()` adds an offset, which is less, and divides by the sum.
        //
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).io_min = bytes.min(1 << 31) };
    }

    /// Sets the preferred length of I/O in bytes.
    ///
    /// The block layer rounds it down to the physical block size.
    ///
    /// Context: Any context. Never sleeps. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn set_io_opt(&mut self, bytes: u32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).io_opt = bytes };
    }

    /// Returns the maximum length of a discard in sectors.
    ///
    /// It is 0 if no device of the target supports discards.
    ///
    /// Context: Any context. Never sleeps.
    pub fn max_hw_discard_sectors(&self) -> u32 {
        // SAFETY: `limits` may be read, by the type invariants.
        unsafe { (*self.limits.as_ptr()).max_hw_discard_sectors }
    }

    /// Sets the maximum length of a discard in sectors.
    ///
    /// If it is 0 for all lines of a table, the mapped device has no discards.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_max_hw_discard_sectors(&mut self, sectors: u32) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).max_hw_discard_sectors = sectors };
    }

    /// Sets the unit of discards, and rounds it up to a power of two from a sector to 2 GiB.
    ///
    /// Context: Any context. Never sleeps.
    /// C: `queue_limit_discard_alignment()` in `block/blk-settings.c`.
    pub fn set_discard_granularity(&mut self, bytes: NonZeroU32) {
        // The block layer divides by the number of sectors, and rounds to it as to a power of two.
        let bytes = bytes.get().clamp(SECTOR_SIZE, 1 << 31).next_power_of_two();
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe { (*self.limits.as_ptr()).discard_granularity = bytes };
    }

    /// Caps atomic writes at `bytes`. Disables them if `bytes` is less than the minimum of the
    /// devices.
    ///
    /// Context: Any context. Never sleeps.
    /// C: `blk_validate_atomic_write_limits()` in `block/blk-settings.c`.
    pub fn limit_atomic_writes(&mut self, bytes: NonZeroU32) {
        // The unit of an atomic write is a power of two.
        let unit = 1 << bytes.ilog2();
        // SAFETY: `limits` may be written to, by the type invariants.
        let limits = unsafe { self.limits.as_mut() };

        // Without devices, the maximum is `u32::MAX` and the unit is 0.
        if matches!(limits.atomic_write_hw_max, 0 | u32::MAX) {
            return;
        }
        if unit < limits.atomic_write_hw_unit_min {
            disable_atomic_writes(limits);
            return;
        }
        limits.atomic_write_hw_max = limits.atomic_write_hw_max.min(bytes.get());
        limits.atomic_write_hw_unit_max = limits.atomic_write_hw_unit_max.min(unit);
    }

    /// Requires memory for direct I/O to be aligned to the logical block size, but at most to a
    /// page. The block layer accepts no larger alignment.
    ///
    /// Context: Any context. Never sleeps. C: `blk_validate_limits()` in `block/blk-settings.c`.
    pub fn align_dma_to_logical_block_size(&mut self) {
        // SAFETY: `limits` may be written to, by the type invariants.
        unsafe {
            let limits = self.limits.as_ptr();
            let bytes = (*limits).logical_block_size.min(PAGE_BYTES);
            (*limits).dma_alignment = bytes.saturating_sub(1);
        }
    }
}

/// Disables atomic writes.
fn disable_atomic_writes(limits: &mut bindings::queue_limits) {
    limits.atomic_write_hw_max = 0;
    limits.atomic_write_hw_unit_min = 0;
    limits.atomic_write_hw_unit_max = 0;
    limits.atomic_write_hw_boundary = 0;
}

/// Returns whether atomic writes with a boundary can be sent to a device with chunks.
///
/// C: `blk_valid_atomic_writes_boundary()` in `block/blk-settings.c`.
fn chunk_fits_boundary(chunk_sectors: u32, boundary_sectors: u32) -> bool {
    let (least, most) = (
        chunk_sectors.min(boundary_sectors),
        chunk_sectors.max(boundary_sectors),
    );
    most.checked_rem(least).is_none_or(|rest| rest == 0)
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_limits)]
mod tests {
    use super::*;

    /// Returns the limits of a target that caps bios at `sectors` and then sets blocks of
    /// `block_bytes`.
    fn limited(block_bytes: u32, sectors: u32) -> Result<bindings::queue_limits> {
        let mut limits = bindings::queue_limits {
            logical_block_size: SECTOR_SIZE,
            max_hw_sectors: 2048,
            ..pin_init::zeroed()
        };
        // SAFETY: `limits` is alive until this function returns, and not shared.
        let mut wrapped = unsafe { Limits::new(NonNull::from(&mut limits)) };
        wrapped.limit_bio_sectors(NonZeroU32::new(sectors).ok_or(EINVAL)?);
        wrapped.stack_block_size(NonZeroU32::new(block_bytes).ok_or(EINVAL)?);
        wrapped.align_dma_to_logical_block_size();
        Ok(limits)
    }

    #[test]
    fn max_hw_sectors_is_capped() -> Result {
        assert_eq!(limited(512, 1024)?.max_hw_sectors, 1024);
        assert_eq!(limited(4096, 4096)?.max_hw_sectors, 2048);
        Ok(())
    }

    /// `blk_validate_limits()` warns of such limits. The order of the target's calls does not
    /// matter.
    #[test]
    fn max_hw_sectors_is_at_least_a_logical_block() -> Result {
        for block_bytes in [512, 4096, bindings::BLK_MAX_BLOCK_SIZE] {
            let limits = limited(block_bytes, 1)?;
            assert!(limits.max_hw_sectors * SECTOR_SIZE >= block_bytes.max(PAGE_BYTES));
        }
        Ok(())
    }

    /// `blk_atomic_writes_update_limits()` converts it to bytes, and rounds these down to a power
    /// of two, which 0 does not have.
    #[test]
    fn max_hw_sectors_in_bytes_does_not_overflow() -> Result {
        for sectors in [1 << 23, 1 << 31, u32::MAX] {
            let sectors = NonZeroU32::new(sectors).ok_or(EINVAL)?;
            let limits = limits_after(|limits| {
                // SAFETY: `limits` may be written to, by the type invariants.
                unsafe { limits.limits.as_mut() }.max_hw_sectors = u32::MAX;
                limits.limit_bio_sectors(sectors);
            });
            assert!(limits.max_hw_sectors.checked_mul(SECTOR_SIZE).is_some());
        }
        Ok(())
    }

    /// `blk_validate_limits()` warns of blocks longer than `max_hw_sectors`, which is a page on
    /// some devices. Before that, it refuses blocks above `BLK_MAX_BLOCK_SIZE`.
    #[test]
    fn blocks_above_a_page_are_refused() -> Result {
        for bytes in [PAGE_BYTES + 1, 2 * PAGE_BYTES, 16 * PAGE_BYTES] {
            let limits = limited(bytes, 1024)?;
            assert_eq!(limits.logical_block_size, 2 * bindings::BLK_MAX_BLOCK_SIZE);
        }
        assert_eq!(limited(PAGE_BYTES, 1024)?.logical_block_size, PAGE_BYTES);
        Ok(())
    }

    #[test]
    fn dma_alignment_is_at_most_a_page() -> Result {
        assert_eq!(limited(512, 1024)?.dma_alignment, 511);
        assert_eq!(limited(4096, 1024)?.dma_alignment, 4095);
        // The block layer warns of a larger alignment.
        assert_eq!(limited(8192, 1024)?.dma_alignment, 4095);
        Ok(())
    }

    /// Returns the atomic write maximum and the minimum and maximum unit. The target caps atomic
    /// writes at `bytes` on a device with the given limits.
    fn limited_atomic(bytes: u32, (max, unit_min, unit_max): (u32, u32, u32)) -> (u32, u32, u32) {
        let mut limits = bindings::queue_limits {
            atomic_write_hw_max: max,
            atomic_write_hw_unit_min: unit_min,
            atomic_write_hw_unit_max: unit_max,
            ..pin_init::zeroed()
        };
        // SAFETY: `limits` is alive until this function returns, and not shared.
        let mut wrapped = unsafe { Limits::new(NonNull::from(&mut limits)) };
        if let Some(bytes) = NonZeroU32::new(bytes) {
            wrapped.limit_atomic_writes(bytes);
        }
        (
            limits.atomic_write_hw_max,
            limits.atomic_write_hw_unit_min,
            limits.atomic_write_hw_unit_max,
        )
    }

    #[test]
    fn atomic_write_units_are_powers_of_two() {
        let device = (65536, 4096, 65536);

        assert_eq!(limited_atomic(u32::MAX, device), device);
        assert_eq!(limited_atomic(16384, device), (16384, 4096, 16384));
        assert_eq!(limited_atomic(40000, device), (40000, 4096, 32768));
        assert_eq!(limited_atomic(4096, device), (4096, 4096, 4096));
        // Otherwise the maximum unit would be below the minimum.
        assert_eq!(limited_atomic(4095, device), (0, 0, 0));
    }

    #[test]
    fn atomic_write_limits_of_zero_are_kept() {
        for none in [(0, 0, 0), (u32::MAX, 0, 0)] {
            assert_eq!(limited_atomic(4096, none), none);
        }
    }

    /// Returns the limits after `set`, with atomic writes of up to 64 KiB that do not cross 64 KiB.
    fn limits_after(set: impl FnOnce(&mut Limits<'_>)) -> bindings::queue_limits {
        let mut limits = bindings::queue_limits {
            atomic_write_hw_max: 65536,
            atomic_write_hw_boundary: 65536,
            ..pin_init::zeroed()
        };
        // SAFETY: `limits` is alive until this function returns, and not shared.
        set(&mut unsafe { Limits::new(NonNull::from(&mut limits)) });
        limits
    }

    #[test]
    fn io_lengths_are_set() {
        let limits = limits_after(|limits| {
            limits.set_io_min(4096);
            limits.set_io_opt(u32::MAX);
            limits.set_max_hw_discard_sectors(7);
            limits.set_max_hw_discard_sectors(limits.max_hw_discard_sectors() + 1);
        });
        assert_eq!((limits.io_min, limits.io_opt), (4096, u32::MAX));
        assert_eq!(limits.max_hw_discard_sectors, 8);
        assert_eq!(limits.atomic_write_hw_max, 65536);
    }

    /// `blk_stack_limits()` adds an alignment offset below `io_min`, and divides by the sum.
    #[test]
    fn minimum_io_length_has_room_for_an_offset() {
        let limits = limits_after(|limits| limits.set_io_min(u32::MAX));
        assert!(limits.io_min.checked_add(limits.io_min - 1).is_some());
    }

    /// `blk_stack_limits()` adds an alignment offset below 2 GiB to the block size, and divides by
    /// the sum. It does so before the block layer refuses sizes above `BLK_MAX_BLOCK_SIZE`. A size
    /// that is not a power of two stays refused: `dma_alignment` was made a mask of it.
    #[test]
    fn block_size_has_room_for_an_offset() -> Result {
        for bytes in [
            513,
            3 << 10,
            bindings::BLK_MAX_BLOCK_SIZE + 1,
            1 << 31,
            0xfe00_0000,
            u32::MAX,
        ] {
            let bytes = NonZeroU32::new(bytes).ok_or(EINVAL)?;
            let limits = limits_after(|limits| limits.stack_block_size(bytes));
            for size in [
                limits.logical_block_size,
                limits.physical_block_size,
                limits.io_min,
            ] {
                assert!(size.checked_add(1 << 31).is_some());
                assert!(size > bindings::BLK_MAX_BLOCK_SIZE);
            }
        }
        Ok(())
    }

    /// `queue_limit_discard_alignment()` divides by the number of sectors.
    #[test]
    fn discard_granularity_is_a_power_of_two_of_sectors() -> Result {
        for (bytes, expected) in [
            (1, 512),
            (512, 512),
            (513, 1024),
            (4096, 4096),
            ((1 << 31) - 1, 1 << 31),
            (u32::MAX, 1 << 31),
        ] {
            let bytes = NonZeroU32::new(bytes).ok_or(EINVAL)?;
            let limits = limits_after(|limits| limits.set_discard_granularity(bytes));
            assert_eq!(limits.discard_granularity, expected);
        }
        Ok(())
    }

    /// `blk_validate_atomic_write_limits()` warns if one of the two is no multiple of the other.
    #[test]
    fn chunks_that_do_not_fit_disable_atomic_writes() -> Result {
        for (chunk_sectors, max) in [(128, 65536), (64, 65536), (384, 65536), (96, 0), (192, 0)] {
            let chunk = NonZeroU32::new(chunk_sectors).ok_or(EINVAL)?;
            let limits = limits_after(|limits| limits.set_chunk_sectors(chunk));
            assert_eq!(limits.chunk_sectors, chunk_sectors);
            assert_eq!(limits.atomic_write_hw_max, max);
        }
        Ok(())
    }
}
