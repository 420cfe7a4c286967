// SPDX-License-Identifier: GPL-2.0

//! A bio in `map`, and the result of `map`.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    mem,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityPayload,
            Op,
            Segments,
            SegmentsMut,
            SECTOR_SIZE, //
        },
        dm::target::{
            devices::{
                has_whole_blocks,
                DeviceIndex, //
            },
            vtable::Inner,
            Target, //
        }, //
    }, //
};

use super::{
    getters::impl_getters,
    owned::Bio,
    per_bio::{
        PerBio,
        PerBioRef, //
    },
    raw, //
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
    pub(super) ptr: BioInMap<T>,
    _brand: Brand<'a>,
}

/// A bio in `map`, with or without per-bio data.
///
/// # Invariants
///
/// - `bio` is a clone that device mapper has passed to the `map` of `inner`, and that has not left
///   the target. Only its length may have changed since.
/// - If [`BioInMap::has_per_bio()`], `ptr` is a [`PerBioRef<T>`]. Otherwise it is the `Inner<T>`,
///   with the bits of `Self::MARK`, alive until the bio has left the target, and the per-bio data
///   is not initialised.
/// - There is no other owner of the bio.
// Two words, which a call passes in registers.
pub(super) struct BioInMap<T: Target> {
    bio: *mut bindings::bio,
    ptr: NonNull<()>,
    _target: PhantomData<PerBioRef<T>>,
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
            // SAFETY: By this function's contract.
            ptr: unsafe { BioInMap::new(bio, inner) },
            _brand: PhantomData,
        }
    }

    /// Returns whether the bio is a flush of the device cache (`REQ_PREFLUSH`).
    ///
    /// Device mapper sends flushes only if [`TargetBuilder::set_num_flush_bios()`] was called. They
    /// have no data: their length is 0, and their sector means nothing. The exception are targets
    /// with [`TargetBuilder::set_flush_bypasses_map()`]: a write with data may be a flush, too.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`TargetBuilder::set_flush_bypasses_map()`]:
    ///     crate::block::dm::TargetBuilder::set_flush_bypasses_map
    /// [`TargetBuilder::set_num_flush_bios()`]: crate::block::dm::TargetBuilder::set_num_flush_bios
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.has_flag(bindings::REQ_PREFLUSH)
    }

    /// Returns whether the bio is read-ahead (`REQ_RAHEAD`): it may fail without harm.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_readahead(&self) -> bool {
        self.has_flag(bindings::REQ_RAHEAD)
    }

    /// Returns whether `map` must not sleep for the bio (`REQ_NOWAIT`).
    ///
    /// Such bios arrive only if [`Target::NOWAIT`] is set.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_nowait(&self) -> bool {
        self.has_flag(bindings::REQ_NOWAIT)
    }

    /// Returns the number of the bio among those that device mapper sends for one flush, discard,
    /// secure erase or write of zeroes, from 0 on. It is 0 for any other bio.
    ///
    /// It is less than the number that the target requested, for example with
    /// [`TargetBuilder::set_num_flush_bios()`].
    ///
    /// Context: Any context. Never sleeps. C: `dm_bio_get_target_bio_nr()` in `drivers/md/dm.c`.
    ///
    /// [`TargetBuilder::set_num_flush_bios()`]: crate::block::dm::TargetBuilder::set_num_flush_bios
    #[inline]
    pub fn target_bio_nr(&self) -> u32 {
        // SAFETY: The bio is a clone from device mapper, alive by the type invariants.
        unsafe { bindings::dm_bio_get_target_bio_nr(self.ptr.bio) }
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

    /// Shortens the bio to its first `n_sectors`. Device mapper sends the rest in another bio.
    ///
    /// Fails with [`EINVAL`], and changes nothing, if `n_sectors` is more than the length of the
    /// bio, or has a part of a logical block of the mapped device. Fails in the same way if the bio
    /// must not be split: an operation other than read and write, a flush, an atomic write, or a
    /// write to a zoned device.
    ///
    /// Context: Any context. Never sleeps. C: `dm_accept_partial_bio()` in `drivers/md/dm.c`.
    pub fn accept_partial(&mut self, n_sectors: NonZeroU32) -> Result {
        let splittable = matches!(self.op(), Op::Read | Op::Write)
            && !self.has_flag(bindings::REQ_PREFLUSH)
            && !self.has_flag(bindings::REQ_ATOMIC);

        if !splittable
            || (self.op() != Op::Read && self.is_zoned())
            || n_sectors.get() > self.len_bytes() / SECTOR_SIZE
            // The blocks of the devices are not larger.
            || !has_whole_blocks(n_sectors.get().into(), self.logical_block_size())
        {
            return Err(EINVAL);
        }
        // SAFETY: `dm_accept_partial_bio()` in `drivers/md/dm.c` requires that
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
        // INVARIANT: The device and the sector of the bio are set. Its per-bio data stays
        // initialised if `end_io` needs it, and device mapper owns the bio now.
        MapResult::new(bindings::DM_MAPIO_REMAPPED, None)
    }

    /// Sends a part of a discard, a secure erase or a write of zeroes to `sector` of `device`:
    /// `n_sectors` sectors.
    ///
    /// A target with several devices gets such a bio for each of them
    /// ([`MapBio::target_bio_nr()`]), and sends each its part. The bio that arrives in
    /// [`Target::end_io()`] has its whole length.
    ///
    /// The bio ends with [`IOERR`] if it is of another operation, if it is shorter than
    /// `n_sectors`, or if `device` belongs to another target.
    ///
    /// Context: Any context. Never sleeps. C: `stripe_map_range()` in `drivers/md/dm-stripe.c`.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    pub fn remap_range(
        self,
        device: DeviceIndex,
        sector: u64,
        n_sectors: NonZeroU32,
    ) -> MapResult<'a, T> {
        let has_range = matches!(self.op(), Op::Discard | Op::SecureErase | Op::WriteZeroes);
        if !has_range || n_sectors.get() > self.len_bytes() / SECTOR_SIZE {
            return self.kill();
        }
        let bio = self.ptr.bio;
        let result = self.remap(device, sector);
        if result.code == bindings::DM_MAPIO_REMAPPED {
            // OVERFLOW: At most the length of the bio, see above.
            let len_bytes = n_sectors.get().wrapping_mul(SECTOR_SIZE);
            // SAFETY: Device mapper sends the bio after `map` has returned, so it is alive. It has
            // no pages, so its length counts sectors only.
            unsafe { (*bio).bi_iter.bi_size = len_bytes };
        }
        result
    }

    /// Ends the bio with [`IOERR`], as `DM_MAPIO_KILL`.
    ///
    /// Context: Any context. Never sleeps.
    ///
    /// [`IOERR`]: crate::block::bio::BlkError::IOERR
    #[cold]
    pub fn kill(self) -> MapResult<'a, T> {
        // INVARIANT: Device mapper ends the bio after `map` returned, without a call of `end_io`.
        MapResult::new(bindings::DM_MAPIO_KILL, self.ptr.into_initialised())
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
        MapResult::new(bindings::DM_MAPIO_REQUEUE, self.ptr.into_initialised())
    }

    /// Ends the bio with `result`.
    ///
    /// Before a read ends with [`Ok`], the target must write all of its memory: otherwise the
    /// submitter gets its old content.
    ///
    /// Context: Any context. Never sleeps.
    pub fn end(self, result: BlkResult) -> MapResult<'a, T> {
        if PerBio::<T>::NEEDS_END_IO {
            return self.defer(|bio| bio.end(result));
        }
        let bio = self.ptr.bio;
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*bio).bi_status = BlkError::result_to_raw(result) };
        // SAFETY: `bio` is a clone from device mapper. It is ended for the first time since `map`:
        // this call consumed the only pointer. The per-bio data has no destructor.
        unsafe { bindings::bio_endio(bio) };
        // INVARIANT: The bio was ended above.
        MapResult::new(bindings::DM_MAPIO_SUBMITTED, None)
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
        func(Bio::new(self.ptr.into_per_bio()));
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
        unsafe { bindings::bdev_is_zoned((*self.ptr.bio).bi_bdev) }
    }

    /// Returns the logical block size of the mapped device in bytes.
    fn logical_block_size(&self) -> u32 {
        // SAFETY: As in `is_zoned()`.
        unsafe { bindings::bdev_logical_block_size((*self.ptr.bio).bi_bdev) }
    }

    fn has_flag(&self, flag: u32) -> bool {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*self.ptr.bio).bi_opf & flag != 0 }
    }
}

impl<T: Target> BioInMap<T> {
    /// Marks the pointer to an `Inner<T>` if the per-bio data may be initialised in `map`. The type
    /// has pointers, as [`PerBio`] has, so the lowest bit is 0 otherwise.
    const MARK: usize = {
        assert!(align_of::<Inner<T>>() > 1 && align_of::<PerBio<T>>() > 1);
        if PerBio::<T>::NEEDS_END_IO || !PerBio::<T>::HAS_DATA {
            0
        } else {
            1
        }
    };

    /// Returns whether the per-bio data is initialised: from the start if `end_io` needs it, and
    /// otherwise from the first call of [`data()`](Self::data) on, if that has data.
    #[inline]
    fn has_per_bio(&self) -> bool {
        PerBio::<T>::NEEDS_END_IO || Self::MARK != 0 && self.ptr.addr().get() & Self::MARK == 0
    }

    /// Initialises the per-bio data if `end_io` needs it.
    ///
    /// # Safety
    ///
    /// `bio` must be the argument of the running `map`, and `inner` its target.
    #[inline]
    unsafe fn new(bio: *mut bindings::bio, inner: NonNull<Inner<T>>) -> Self {
        let ptr = if PerBio::<T>::NEEDS_END_IO {
            // SAFETY: A bio enters a target in `map`, so its per-bio data is not initialised.
            // Device mapper keeps the target until all its bios have ended.
            let per_bio = unsafe { PerBio::init(bio, inner) };
            // SAFETY: The pointer was just written to, so it is not null.
            unsafe { NonNull::new_unchecked(per_bio.into_raw()) }.cast()
        } else {
            inner.cast().map_addr(|addr| addr | Self::MARK)
        };
        // INVARIANT: By this function's contract, and see above.
        Self {
            bio,
            ptr,
            _target: PhantomData,
        }
    }

    /// Returns the per-bio data if it is initialised.
    #[inline]
    fn per_bio(&mut self) -> Option<&mut PerBioRef<T>> {
        // SAFETY: `ptr` is a `PerBioRef`, by the type invariants. It is a transparent wrapper of a
        // pointer.
        self.has_per_bio()
            .then(|| unsafe { &mut *(&raw mut self.ptr).cast() })
    }

    /// Returns the per-bio data if it is initialised.
    #[inline]
    fn into_initialised(self) -> Option<PerBioRef<T>> {
        // SAFETY: `ptr` is from `into_raw()`, by the type invariants, and `self` is not used again.
        self.has_per_bio()
            .then(|| unsafe { PerBio::from_raw(self.ptr.cast().as_ptr()) })
    }

    /// Returns the per-bio data, and initialises it if it is not yet.
    #[inline]
    fn into_per_bio(self) -> PerBioRef<T> {
        let (bio, inner) = (self.bio, NonNull::from(self.inner().get_ref()));
        // SAFETY: Without a `PerBioRef`, the per-bio data is not initialised, by the type
        // invariants. The bio is as device mapper has passed it, except that it may be shorter.
        self.into_initialised()
            .unwrap_or_else(|| unsafe { PerBio::init(bio, inner) })
    }

    /// Returns the target.
    #[inline]
    fn inner(&self) -> Pin<&Inner<T>> {
        let inner = if self.has_per_bio() {
            // SAFETY: `ptr` is a `PerBioRef`, by the type invariants.
            let per_bio: &PerBioRef<T> = unsafe { &*(&raw const self.ptr).cast() };
            per_bio.inner().get_ref()
        } else {
            let inner = self.ptr.as_ptr().map_addr(|addr| addr & !Self::MARK);
            // SAFETY: This is the target, by the type invariants. It is alive until the bio leaves
            // it. That takes `self` by value, so it happens after this borrow.
            unsafe { &*inner.cast() }
        };
        // SAFETY: The target is pinned, see `ctr` in `vtable.rs`.
        unsafe { Pin::new_unchecked(inner) }
    }

    /// Returns the position of the bio.
    #[inline]
    fn iter(&self) -> bindings::bvec_iter {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { raw::iter(self.bio) }
    }

    /// Returns the operation.
    #[inline]
    fn op(&self) -> Op {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { raw::op(self.bio) }
    }

    /// Returns the operation and the flags.
    #[inline]
    fn opf(&self) -> bindings::blk_opf_t {
        // SAFETY: The bio is alive by the type invariants.
        unsafe { (*self.bio).bi_opf }
    }

    /// Returns the per-bio data of the target.
    #[inline]
    fn data(&mut self) -> &mut T::PerBio {
        if !PerBio::<T>::NEEDS_END_IO && !PerBio::<T>::HAS_DATA {
            // Makes a value, as `PerBio::init()` does later. No value has a destructor.
            mem::forget(T::PerBio::default());
            // SAFETY: The type has no size. A value was made above.
            return unsafe { NonNull::dangling().as_mut() };
        }
        if !self.has_per_bio() {
            let inner = NonNull::from(self.inner().get_ref());
            // SAFETY: As in `into_per_bio()`.
            let per_bio = unsafe { PerBio::init(self.bio, inner) };
            // INVARIANT: The per-bio data was initialised, so its pointer has no mark.
            //
            // SAFETY: The pointer was just written to, so it is not null.
            self.ptr = unsafe { NonNull::new_unchecked(per_bio.into_raw()) }.cast();
        }
        // SAFETY: `ptr` is a `PerBioRef`: see `per_bio()`.
        let per_bio: &mut PerBioRef<T> = unsafe { &mut *(&raw mut self.ptr).cast() };
        per_bio.data()
    }

    /// Returns an iterator over the memory of the bio. It is empty if the operation has none.
    #[inline]
    fn segments(&self) -> Segments<'_> {
        // SAFETY: The bio is alive by the type invariants.
        let (table, iter) = unsafe { raw::table(self.bio, self.iter()) };
        // SAFETY: `table` has `iter.bi_size` bytes, as `bi_iter` is the position of the bio in its
        // table. The submitter keeps the pages until the bio ends, so for the borrow of `self`.
        unsafe { Segments::new(table, iter) }
    }

    /// Returns the target and a mutable iterator over the memory, which is empty unless
    /// [`Op::Read`].
    #[inline]
    fn segments_mut(&mut self) -> (Pin<&T>, SegmentsMut<'_>) {
        // SAFETY: The bio is alive by the type invariants.
        let (table, iter) = unsafe { raw::writable_table(self.bio, self.iter()) };
        // SAFETY:
        // - The table has `iter.bi_size` bytes, as in `segments()`. The submitter of a read keeps
        //   its pages writable until the read ends. Other operations have 0 bytes here.
        // - `self` is borrowed mutably, so there is no other iterator. The bio is at no device, as
        //   it is still in `map`.
        let segments = unsafe { SegmentsMut::new(table, iter) };
        (self.inner().get_ref().target(), segments)
    }

    /// Shortens the bio to `n_sectors`. Device mapper sends the rest in another bio.
    ///
    /// # Safety
    ///
    /// The conditions of `dm_accept_partial_bio()` in `drivers/md/dm.c` must hold.
    unsafe fn accept_partial(&mut self, n_sectors: u32) {
        // SAFETY: By this function's contract.
        unsafe { bindings::dm_accept_partial_bio(self.bio, n_sectors) };
        let len_bytes = self.iter().bi_size;
        if let Some(per_bio) = self.per_bio() {
            per_bio.shorten(len_bytes);
        }
    }

    /// Points the bio at a device, with its integrity payload. Returns [`None`] if the target has
    /// no such device, or if the device does not support such a payload.
    #[inline]
    fn remap(&mut self, device: DeviceIndex, sector: u64) -> Option<()> {
        let bio = self.bio;
        if let Some(per_bio) = self.per_bio() {
            return per_bio.remap(device, sector);
        }
        // SAFETY: The bio is alive, of this target, and owned here, by the type invariants.
        unsafe { raw::set_dev(bio, self.inner().get_ref(), device, sector) }
    }

    /// Attaches an integrity payload.
    pub(super) fn set_integrity(&mut self, payload: IntegrityPayload) {
        if let Some(per_bio) = self.per_bio() {
            per_bio.set_integrity(payload);
        }
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
