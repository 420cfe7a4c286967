// SPDX-License-Identifier: GPL-2.0

//! A bio in `map`, and the result of `map`.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BlkResult,
            Op,
            SECTOR_SIZE, //
        },
        dm::target::{
            devices::DeviceIndex,
            vtable::Inner,
            Target, //
        }, //
    }, //
};

use super::{
    owned::Bio,
    per_bio::{
        impl_getters,
        PerBio,
        PerBioRef, //
    }, //
};

/// An invariant lifetime: it can be neither shortened nor extended.
pub(super) type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// A bio in [`Target::map()`].
///
/// Each method that makes a [`MapResult`] consumes the bio. As `'a` is different in each call of
/// `map`, the `MapResult` of a bio cannot be returned for another bio.
///
/// # Invariants
///
/// `ptr` is the bio of the running call of `map`.
pub struct MapBio<'a, T: Target> {
    pub(in crate::block::dm) ptr: PerBioRef<T>,
    _brand: Brand<'a>,
}

/// The result of [`Target::map()`]. The methods of [`MapBio`] make it.
///
/// # Invariants
///
/// `code` is a value that `__map_bio()` in `drivers/md/dm.c` handles, and is true for the bio.
/// `ptr` is `Some` if and only if the bio has not left the target.
#[must_use = "the bio is lost unless `map` returns this"]
pub struct MapResult<'a, T: Target> {
    code: u32,
    ptr: Option<PerBioRef<T>>,
    _brand: Brand<'a>,
}

impl<'a, T: Target> MapBio<'a, T> {
    impl_getters!();

    /// Starts a call of `map`.
    ///
    /// # Safety
    ///
    /// - `bio` must be the argument of the running `map`, and `inner` its target.
    /// - `'a` must be a lifetime local to the caller.
    #[inline]
    pub(in crate::block::dm) unsafe fn new(
        bio: *mut bindings::bio,
        inner: NonNull<Inner<T>>,
    ) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            // SAFETY: A bio enters a target in `map`, so its per-bio data is not initialised.
            // Device mapper keeps the target until all its bios have ended.
            ptr: unsafe { PerBio::init(bio, inner) },
            _brand: PhantomData,
        }
    }

    /// Returns whether the bio is a flush of the device cache (`REQ_PREFLUSH`).
    ///
    /// Device mapper sends flushes without data, and only if [`TargetBuilder::send_flush_bios()`]
    /// was called.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`TargetBuilder::send_flush_bios()`]: crate::block::dm::TargetBuilder::send_flush_bios
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.has_flag(bindings::REQ_PREFLUSH)
    }

    /// Returns whether the write is atomic (`REQ_ATOMIC`).
    ///
    /// Such bios arrive only if [`Target::ATOMIC_WRITES`] is set. They cannot be split.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.has_flag(bindings::REQ_ATOMIC)
    }

    /// Returns whether a task probably waits for the write (`REQ_SYNC`, `REQ_FUA` or
    /// `REQ_PREFLUSH`), or the bio is a read.
    ///
    /// Context: Any context. Never sleeps. C: `op_is_sync()` in `include/linux/blk_types.h`.
    #[inline]
    pub fn is_sync(&self) -> bool {
        self.op() == Op::Read
            || self.has_flag(bindings::REQ_SYNC | bindings::REQ_FUA | bindings::REQ_PREFLUSH)
    }

    /// Returns the first sector on the mapped device.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn sector(&self) -> u64 {
        self.ptr.iter().bi_sector
    }

    /// Returns the first sector, relative to the start of the target.
    ///
    /// Context: Any context. Never sleeps. C: `dm_target_offset()`.
    #[inline]
    pub fn target_sector(&self) -> u64 {
        // OVERFLOW: Device mapper sends a target no bio that begins before the target. The
        // exception are flushes, at sector 0, where the difference has no meaning.
        self.sector().wrapping_sub(self.ptr.inner().begin_sectors())
    }

    /// Shortens the bio to its first `n_sectors`. Device mapper sends the rest in another bio.
    ///
    /// Fails with [`EINVAL`], and changes nothing, if `n_sectors` is more than the length of the
    /// bio. Fails in the same way if the bio must not be split: an operation other than read and
    /// write, a flush, an atomic write, or a write to a zoned device.
    ///
    /// Context: Any context. Never sleeps. C: `dm_accept_partial_bio()` in `drivers/md/dm.c`.
    pub fn accept_partial(&mut self, n_sectors: NonZeroU32) -> Result {
        let splittable = matches!(self.op(), Op::Read | Op::Write)
            && !self.has_flag(bindings::REQ_PREFLUSH)
            && !self.has_flag(bindings::REQ_ATOMIC);

        if !splittable
            || (self.op() != Op::Read && self.is_zoned())
            || n_sectors.get() > self.len_bytes() / SECTOR_SIZE
        {
            return Err(EINVAL);
        }
        // SAFETY: `dm_accept_partial_bio()` requires that
        // - it is called in `map`, before the bio is passed on: `self` still exists,
        // - the bio is no duplicate: the only reads and writes of `__send_duplicate_bios()` are
        //   flushes,
        // - `n_sectors` is at most the length, and the bio is neither atomic nor a write to a zoned
        //   device: checked above.
        unsafe { self.ptr.accept_partial(n_sectors.get()) };
        Ok(())
    }

    /// Sends the bio to `sector` of `device`, as `DM_MAPIO_REMAPPED`.
    ///
    /// If `device` belongs to another target, the bio ends with [`IOERR`].
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[inline]
    pub fn remap(mut self, device: DeviceIndex, sector: u64) -> MapResult<'a, T> {
        if self.ptr.remap(device, sector).is_none() {
            return self.kill();
        }
        let _ = self.ptr.into_raw();
        // INVARIANT: The device and the sector of the bio are set. Its per-bio data stays
        // initialised, and device mapper owns the bio now.
        MapResult::new(bindings::DM_MAPIO_REMAPPED, None)
    }

    /// Ends the bio with [`IOERR`], as `DM_MAPIO_KILL`.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[cold]
    pub fn kill(self) -> MapResult<'a, T> {
        // INVARIANT: Device mapper ends the bio after `map` returned, without a call of `end_io`.
        MapResult::new(bindings::DM_MAPIO_KILL, Some(self.ptr))
    }

    /// Requeues the bio, as `DM_MAPIO_REQUEUE`.
    ///
    /// Device mapper sends the bio again after a suspend without flush, which
    /// `dmsetup suspend --noflush` starts. If no such suspend is in progress, it ends the bio with
    /// [`IOERR`]. A write to a zoned device always ends with [`IOERR`], as later writes would
    /// overtake it.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[cold]
    pub fn requeue(self) -> MapResult<'a, T> {
        if self.is_zone_write() {
            // Device mapper would kill it too, but with a warning: `dm_handle_requeue()`.
            return self.kill();
        }
        // INVARIANT: As in `kill()`.
        MapResult::new(bindings::DM_MAPIO_REQUEUE, Some(self.ptr))
    }

    /// Ends the bio with `result`.
    ///
    /// Context: Any context. Never sleeps.
    pub fn end(self, result: BlkResult) -> MapResult<'a, T> {
        self.defer(|bio| bio.end(result))
    }

    /// Passes the bio to `func`, which may keep it after this call of `map`.
    ///
    /// `func` must not wait for a bio, as bios are submitted only after `map` returned. So
    /// [`CloneBio::read()`] fails in `func`.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`CloneBio::read()`]: crate::block::dm::CloneBio::read
    #[inline]
    pub fn defer(self, func: impl FnOnce(Bio<T>)) -> MapResult<'a, T> {
        func(Bio::new(self.ptr));
        // INVARIANT: `func` owns the bio, and a `Bio` always ends its bio.
        MapResult::new(bindings::DM_MAPIO_SUBMITTED, None)
    }

    /// Returns whether this is a write with data to a zoned device.
    ///
    /// A superset of `dm_is_zone_write()` in `drivers/md/dm-zone.c`, independent of the flags.
    fn is_zone_write(&self) -> bool {
        let op = self.op();

        matches!(op, Op::Write | Op::WriteZeroes) && self.len_bytes() > 0 && self.is_zoned()
    }

    /// Returns whether the mapped device is zoned.
    fn is_zoned(&self) -> bool {
        // SAFETY: The bio is alive. It is still on the mapped device: a remap consumes `self`.
        unsafe { bindings::bdev_is_zoned((*self.ptr.bio()).bi_bdev) }
    }

    fn has_flag(&self, flag: u32) -> bool {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*self.ptr.bio()).bi_opf & flag != 0 }
    }
}

impl<T: Target> MapResult<'_, T> {
    #[inline]
    fn new(code: u32, ptr: Option<PerBioRef<T>>) -> Self {
        Self {
            code,
            ptr,
            _brand: PhantomData,
        }
    }

    /// Ends the call of `map`, and returns its result for device mapper.
    #[inline]
    pub(in crate::block::dm) fn finish(self) -> kernel::ffi::c_int {
        if let Some(ptr) = self.ptr {
            // Device mapper frees the bio without a call of `end_io`.
            ptr.destroy();
        }
        // CAST: The codes are 0 to 4.
        self.code as kernel::ffi::c_int
    }
}
