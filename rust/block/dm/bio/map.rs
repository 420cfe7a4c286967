// SPDX-License-Identifier: GPL-2.0

//! A bio in `map`, and what becomes of it.

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
            Segments,
            SECTOR_SIZE, //
        },
        dm::target::{
            devices::Device,
            vtable::Inner,
            Target, //
        }, //
    }, //
};

use super::{
    owned::Bio,
    per_bio::{
        PerBio,
        Ptr, //
    }, //
};

/// Makes a lifetime that no other value has: neither a longer nor a shorter one will do.
pub(super) type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// A bio in [`Target::map()`].
///
/// It is used up by the method that makes a [`Map`] of it. As `'a` is different in each call of
/// `map`, the `Map` of one bio cannot be returned for another.
///
/// # Invariants
///
/// `ptr` is the bio that the running call of `map` is about.
pub struct MapBio<'a, T: Target> {
    pub(in crate::block::dm) ptr: Ptr<T>,
    _brand: Brand<'a>,
}

/// What becomes of the bio in [`Target::map()`]; made by the methods of [`MapBio`].
///
/// # Invariants
///
/// `code` is a value that `__map_bio()` in `drivers/md/dm.c` knows, and what it says about the bio
/// is true. `ptr` is there if and only if the bio has not left the target.
#[must_use = "the bio is lost unless `map` returns this"]
pub struct Map<'a, T: Target> {
    code: u32,
    ptr: Option<Ptr<T>>,
    _brand: Brand<'a>,
}

impl<'a, T: Target> MapBio<'a, T> {
    /// Starts a call of `map`.
    ///
    /// # Safety
    ///
    /// - `bio` must be what device mapper called `map` with, and `inner` its target.
    /// - `'a` must be a lifetime of the caller's own.
    #[inline]
    pub(in crate::block::dm) unsafe fn new(
        bio: *mut bindings::bio,
        inner: NonNull<Inner<T>>,
    ) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            // SAFETY: `map` is where the life of a bio in a target starts, so its per-bio data is
            // not initialised; device mapper keeps the target until all its bios have ended.
            ptr: unsafe { PerBio::init(bio, inner) },
            _brand: PhantomData,
        }
    }

    /// Returns the operation.
    ///
    /// Context: Any.
    #[inline]
    pub fn op(&self) -> Op {
        self.ptr.op()
    }

    /// Tells whether the bio asks to flush the device's cache (`REQ_PREFLUSH`).
    ///
    /// Device mapper sends flushes without data, and only if [`Table::send_flush_bios()`] was
    /// called.
    ///
    /// Context: Any.
    ///
    /// [`Table::send_flush_bios()`]: crate::block::dm::Table::send_flush_bios
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.has_flag(bindings::REQ_PREFLUSH)
    }

    /// Tells whether the bio is to be carried out whole or not at all (`REQ_ATOMIC`).
    ///
    /// There are such bios only if [`Target::ATOMIC_WRITES`] is set. They cannot be split.
    ///
    /// Context: Any.
    #[inline]
    pub fn is_atomic(&self) -> bool {
        self.has_flag(bindings::REQ_ATOMIC)
    }

    /// Returns the first sector, on the mapped device.
    ///
    /// Context: Any.
    #[inline]
    pub fn sector(&self) -> u64 {
        self.ptr.iter().bi_sector
    }

    /// Returns the first sector, relative to the target's begin.
    ///
    /// Context: Any. C: `dm_target_offset()`.
    #[inline]
    pub fn target_sector(&self) -> u64 {
        // OVERFLOW: Device mapper sends a target no bio that begins before it, but flushes are at
        // sector 0, where the difference means nothing.
        self.sector().wrapping_sub(self.ptr.inner().begin_sectors())
    }

    /// Returns the length in bytes, a multiple of [`SECTOR_SIZE`].
    ///
    /// Context: Any.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.ptr.iter().bi_size
    }

    /// Returns the target's data for this bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn data(&mut self) -> &mut T::PerBio {
        self.ptr.data()
    }

    /// Walks the bio's memory.
    ///
    /// There is none but for [`Op::Read`] and [`Op::Write`].
    ///
    /// Context: Any.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        self.ptr.segments()
    }

    /// Takes only the first `n_sectors` of the bio; device mapper sends the rest in another.
    ///
    /// Fails with [`EINVAL`], and changes nothing, if `n_sectors` is 0 or more than there are, or
    /// if the bio must not be split: neither a read nor a write, a flush, atomic, or a write to a
    /// zoned device.
    ///
    /// Context: Any. C: `dm_accept_partial_bio()` in `drivers/md/dm.c`.
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
        // SAFETY: `dm_accept_partial_bio()` asks that
        // - it is called in `map`, before the bio is handed on: `self` is still here,
        // - the bio is no duplicate: `__send_duplicate_bios()` sends no reads and writes but
        //   flushes,
        // - `n_sectors` is not more than the bio has, that it is not atomic nor a write to a zoned
        //   device: checked above.
        unsafe { self.ptr.accept_partial(n_sectors.get()) };
        Ok(())
    }

    /// Sends the bio on to `sector` of `device`, as `DM_MAPIO_REMAPPED`.
    ///
    /// A `device` of another target ends the bio with [`IOERR`].
    ///
    /// Context: Any.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[inline]
    pub fn remap(mut self, device: Device, sector: u64) -> Map<'a, T> {
        if self.ptr.remap(device, sector).is_none() {
            return self.kill();
        }
        let _ = self.ptr.into_raw();
        // INVARIANT: The bio has the device and the sector to go to. Its per-bio data stays, but
        // device mapper has it now.
        Map::new(bindings::DM_MAPIO_REMAPPED, None)
    }

    /// Ends the bio with [`IOERR`], as `DM_MAPIO_KILL`.
    ///
    /// Context: Any.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[cold]
    pub fn kill(self) -> Map<'a, T> {
        // INVARIANT: Device mapper ends the bio, without a call of `end_io`, when `map` returned.
        Map::new(bindings::DM_MAPIO_KILL, Some(self.ptr))
    }

    /// Pushes the bio back, as `DM_MAPIO_REQUEUE`.
    ///
    /// Device mapper sends it again after a suspend without flush (`dmsetup suspend --noflush`);
    /// unless one is going on, it ends the bio with [`IOERR`]. So does this for a write to a zoned
    /// device, where the next one would overtake it.
    ///
    /// Context: Any.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[cold]
    pub fn requeue(self) -> Map<'a, T> {
        if self.is_zone_write() {
            // Device mapper would do so itself, with a warning: `dm_handle_requeue()`.
            return self.kill();
        }
        // INVARIANT: As in `kill()`.
        Map::new(bindings::DM_MAPIO_REQUEUE, Some(self.ptr))
    }

    /// Ends the bio with `result`.
    ///
    /// Context: Any.
    pub fn end(self, result: BlkResult) -> Map<'a, T> {
        self.defer(|bio| bio.end(result))
    }

    /// Takes the bio over, so that `func` may keep it beyond this call of `map`.
    ///
    /// Context: Any. What waits for a bio to end must not run in `map`, as bios are submitted only when
    /// `map` returned; so [`CloneBio::read()`] fails there.
    ///
    /// [`CloneBio::read()`]: crate::block::dm::CloneBio::read
    #[inline]
    pub fn defer(self, func: impl FnOnce(Bio<T>)) -> Map<'a, T> {
        func(Bio::new(self.ptr));
        // INVARIANT: The bio is `func`'s, and a `Bio` is ended in the end.
        Map::new(bindings::DM_MAPIO_SUBMITTED, None)
    }

    /// Tells whether this is a write with data to a zoned device.
    ///
    /// More than `dm_is_zone_write()` in `drivers/md/dm-zone.c` knows, for whatever flags there are.
    fn is_zone_write(&self) -> bool {
        let op = self.op();

        matches!(op, Op::Write | Op::WriteZeroes) && self.len_bytes() > 0 && self.is_zoned()
    }

    /// Tells whether the mapped device is zoned.
    fn is_zoned(&self) -> bool {
        // SAFETY: The bio is alive, and still on the mapped device: it was not remapped, which
        // takes `self`.
        unsafe { bindings::bdev_is_zoned((*self.ptr.bio()).bi_bdev) }
    }

    fn has_flag(&self, flag: u32) -> bool {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*self.ptr.bio()).bi_opf & flag != 0 }
    }
}

impl<T: Target> Map<'_, T> {
    #[inline]
    fn new(code: u32, ptr: Option<Ptr<T>>) -> Self {
        Self {
            code,
            ptr,
            _brand: PhantomData,
        }
    }

    /// Ends the call of `map`, and returns what to tell device mapper.
    #[inline]
    pub(in crate::block::dm) fn finish(self) -> kernel::ffi::c_int {
        if let Some(ptr) = self.ptr {
            // Device mapper frees the bio without asking `end_io`.
            ptr.leave();
        }
        // CAST: The codes are 0 to 4.
        self.code as kernel::ffi::c_int
    }
}
