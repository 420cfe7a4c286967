// SPDX-License-Identifier: GPL-2.0

//! The handles of a bio on its way through a target.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    bio::{
        BioSet,
        BlkError,
        BlkResult,
        Op,
        Segments,
        SegmentsMut,
        SECTOR_SIZE, //
    },
    mempool::{
        Allocator,
        Mempool, //
    },
    workqueue::Workqueue, //
};

use super::{
    clone::CloneBio,
    per_bio::{
        PerBio,
        Ptr, //
    },
    table::Device,
    target::{
        Inner,
        Target, //
    }, //
};

/// Makes a lifetime that no other value has: neither a longer nor a shorter one will do.
type Brand<'a> = PhantomData<fn(&'a ()) -> &'a ()>;

/// A bio in [`Target::map()`].
///
/// It is used up by the method that makes a [`Map`] of it. As `'a` is different in each call of
/// `map`, the `Map` of one bio cannot be returned for another.
///
/// # Invariants
///
/// `ptr` is the bio that the running call of `map` is about.
pub struct MapBio<'a, T: Target> {
    ptr: Ptr<T>,
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
    pub(super) unsafe fn new(bio: *mut bindings::bio, inner: NonNull<Inner<T>>) -> Self {
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
    /// [`Table::send_flush_bios()`]: super::Table::send_flush_bios
    #[inline]
    pub fn is_flush(&self) -> bool {
        self.has_flag(bindings::REQ_PREFLUSH)
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
    /// if the bio must not be split: neither a read nor a write, a flush, an atomic write, or on a
    /// zoned device.
    ///
    /// Context: Any. C: `dm_accept_partial_bio()` in `drivers/md/dm.c`.
    pub fn accept_partial(&mut self, n_sectors: NonZeroU32) -> Result {
        let splittable = matches!(self.op(), Op::Read | Op::Write)
            && !self.has_flag(bindings::REQ_PREFLUSH)
            && !self.has_flag(bindings::REQ_ATOMIC);
        // SAFETY: The bio is alive, and still on the mapped device: it was not remapped, which
        // takes `self`.
        let zoned = unsafe { bindings::bdev_is_zoned((*self.ptr.bio()).bi_bdev) };

        if !splittable || zoned || n_sectors.get() > self.len_bytes() / SECTOR_SIZE {
            return Err(EINVAL);
        }
        // SAFETY: `dm_accept_partial_bio()` asks that
        // - it is called in `map`, before the bio is handed on: `self` is still here,
        // - the bio is no duplicate: `__send_duplicate_bios()` sends no reads and writes but
        //   flushes,
        // - `n_sectors` is not more than the bio has, that it is not atomic nor for a zoned
        //   device: checked above.
        unsafe { self.ptr.accept_partial(n_sectors.get()) };
        Ok(())
    }

    /// Sends the bio on to `sector` of `device`, as `DM_MAPIO_REMAPPED`.
    ///
    /// A `device` of another target ends the bio with [`BlkError::IOERR`].
    ///
    /// Context: Any.
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

    /// Ends the bio with [`BlkError::IOERR`], as `DM_MAPIO_KILL`.
    ///
    /// Context: Any.
    #[cold]
    pub fn kill(self) -> Map<'a, T> {
        // INVARIANT: Device mapper ends the bio, without a call of `end_io`, when `map` returned.
        Map::new(bindings::DM_MAPIO_KILL, Some(self.ptr))
    }

    /// Pushes the bio back, as `DM_MAPIO_REQUEUE`.
    ///
    /// Device mapper sends it again after a suspend without flush (`dmsetup suspend --noflush`);
    /// unless one is going on, it ends the bio with [`BlkError::IOERR`].
    ///
    /// Context: Any.
    #[cold]
    pub fn requeue(self) -> Map<'a, T> {
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
    /// Context: Any. What waits for the bio to end must not run in `map`, as bios are submitted
    /// only when `map` returned.
    #[inline]
    pub fn defer(self, func: impl FnOnce(Bio<T>)) -> Map<'a, T> {
        func(Bio::new(self.ptr));
        // INVARIANT: The bio is `func`'s, and a `Bio` is ended in the end.
        Map::new(bindings::DM_MAPIO_SUBMITTED, None)
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
    pub(super) fn finish(self) -> kernel::ffi::c_int {
        if let Some(ptr) = self.ptr {
            // Device mapper frees the bio without asking `end_io`.
            ptr.leave();
        }
        // CAST: The codes are 0 to 4.
        self.code as kernel::ffi::c_int
    }
}

/// A bio that has come back, in [`Target::end_io()`].
///
/// # Invariants
///
/// `ptr` is the bio that the running call of `end_io` is about.
pub struct EndBio<'a, T: Target> {
    ptr: Ptr<T>,
    result: BlkResult,
    _brand: Brand<'a>,
}

/// What becomes of the bio in [`Target::end_io()`]; made by the methods of [`EndBio`].
///
/// # Invariants
///
/// `ptr` is there if and only if the bio is done.
#[must_use = "the bio is lost unless `end_io` returns this"]
pub struct EndIo<'a, T: Target> {
    ptr: Option<Ptr<T>>,
    result: BlkResult,
    _brand: Brand<'a>,
}

impl<'a, T: Target> EndBio<'a, T> {
    /// Starts a call of `end_io`.
    pub(super) fn new(ptr: Ptr<T>, result: BlkResult) -> Self {
        // INVARIANT: The caller is the one call of `end_io`, as it has the only pointer.
        Self {
            ptr,
            result,
            _brand: PhantomData,
        }
    }

    /// Returns how the device ended the bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn result(&self) -> BlkResult {
        self.result
    }

    /// Returns the operation.
    ///
    /// Context: Any.
    #[inline]
    pub fn op(&self) -> Op {
        self.ptr.op()
    }

    /// Returns the length in bytes, as it was in `map`.
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

    /// Returns the target.
    ///
    /// Context: Any.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.ptr.inner().get_ref().target()
    }

    /// Ends the bio as the device ended it, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any.
    #[inline]
    pub fn done(self) -> EndIo<'a, T> {
        let result = self.result;
        self.done_with(result)
    }

    /// Ends the bio with another result, as `DM_ENDIO_DONE`.
    ///
    /// Context: Any.
    #[inline]
    pub fn done_with(self, result: BlkResult) -> EndIo<'a, T> {
        EndIo {
            ptr: Some(self.ptr),
            result,
            _brand: PhantomData,
        }
    }

    /// Takes the bio over, as `DM_ENDIO_INCOMPLETE`, so that `func` may keep it beyond this call.
    ///
    /// Context: Any.
    #[inline]
    pub fn defer(self, func: impl FnOnce(Bio<T>)) -> EndIo<'a, T> {
        func(Bio::new(self.ptr));
        EndIo {
            ptr: None,
            result: Ok(()),
            _brand: PhantomData,
        }
    }
}

impl<T: Target> EndIo<'_, T> {
    /// Ends the call of `end_io`: returns the result of a bio that is done, [`None`] otherwise.
    #[inline]
    pub(super) fn finish(self) -> Option<BlkResult> {
        self.ptr?.leave();
        Some(self.result)
    }
}

/// A bio that the target owns until it ends it.
///
/// Dropping it ends it with [`BlkError::IOERR`]. Leaking it never ends it: whoever waits for it,
/// and the removal of the device, hang.
///
/// # Invariants
///
/// `ptr` is a bio that has not left the target and that no device has.
pub struct Bio<T: Target> {
    ptr: ManuallyDrop<Ptr<T>>,
}

// SAFETY: A bio may be ended by another task, or in an interrupt, than the one it came to. The
// target, which it lends, is `Sync`, and its data `Send`, by the bounds of `Target`.
unsafe impl<T: Target> Send for Bio<T> {}

impl<T: Target> Bio<T> {
    /// Makes the owner of a bio.
    #[inline]
    pub(super) fn new(ptr: Ptr<T>) -> Self {
        // INVARIANT: Whoever has the pointer has the bio.
        Self {
            ptr: ManuallyDrop::new(ptr),
        }
    }

    /// Returns the pointer to the bio.
    #[inline]
    pub(super) fn ptr(&self) -> &Ptr<T> {
        &self.ptr
    }

    /// Returns the pointer to the bio.
    #[inline]
    pub(super) fn ptr_mut(&mut self) -> &mut Ptr<T> {
        &mut self.ptr
    }

    /// Gives up the ownership, without ending the bio.
    #[inline]
    pub(super) fn into_ptr(self) -> Ptr<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.ptr) }
    }

    /// Returns the target, which lives as long as the bio has not ended.
    ///
    /// Context: Any.
    #[inline]
    pub fn target(&self) -> Pin<&T> {
        self.ptr.inner().get_ref().target()
    }

    /// Returns the operation.
    ///
    /// Context: Any.
    #[inline]
    pub fn op(&self) -> Op {
        self.ptr.op()
    }

    /// Returns the length in bytes, as it was in `map`.
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

    /// Walks the bio's memory to fill it; [`None`] unless the operation is [`Op::Read`].
    ///
    /// Returns the target too, as it is borrowed from the same bio.
    ///
    /// Context: Any.
    #[inline]
    pub fn segments_mut(&mut self) -> Option<(Pin<&T>, SegmentsMut<'_>)> {
        if self.op() != Op::Read {
            // The pages of a write are the writer's: they may be mapped read-only, or the zero
            // page.
            return None;
        }
        let (table, iter) = self.ptr.table_and_iter();
        // SAFETY:
        // - The table has the bytes that `iter` tells, see `table_and_iter()`, and the submitter
        //   of a read has the pages ready to be written until it ends.
        // - `self` is borrowed mutably, so there is no other walk, and no device has the bio.
        let segments = unsafe { SegmentsMut::new(table, iter) };
        Some((self.ptr.inner().get_ref().target(), segments))
    }

    /// Ends the bio. The target may be gone when this returns.
    ///
    /// Context: Any. C: `bio_endio()` in `block/bio.c`.
    #[inline]
    pub fn end(self, result: BlkResult) {
        self.into_ptr().end(result);
    }

    /// Sends the bio to `sector` of `device`; when it comes back, [`Target::end_io()`] sees it.
    ///
    /// A bio that came back may be sent again. A `device` of another target ends the bio with
    /// [`BlkError::IOERR`], and so does a call from an interrupt or with interrupts disabled.
    ///
    /// Context: Process context; may sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(mut self, device: Device, sector: u64) {
        if may_submit() && self.ptr.remap(device, sector).is_some() {
            self.into_ptr().submit();
        }
    }

    /// Runs `func` with the bio on a workqueue of the target's.
    ///
    /// Cannot fail: the work item is in the bio's own memory.
    ///
    /// Context: Any. `func` runs in process context and may sleep.
    #[inline]
    pub fn queue(self, select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue, func: fn(Bio<T>)) {
        self.into_ptr().queue(select, func);
    }

    /// Makes a clone that shares the bio's memory.
    ///
    /// Fails, and gives the bio back, unless it is a read or a write, and in an interrupt.
    ///
    /// Context: Process context; sleeps until the set has a bio to give. In `map`, or with another
    /// bio of the same set in hand, it may sleep for ever.
    pub fn share(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x BioSet,
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::share(self, select)
    }

    /// Makes a clone with as much memory of its own, in pages from a pool.
    ///
    /// Fails, and gives the bio back, unless it is a read or a write, and of no more pages than
    /// the pool is guaranteed to have, and in an interrupt.
    ///
    /// The pages have whatever was in them before: fill them before the clone goes out.
    ///
    /// Context: Process context; sleeps until the set has a bio, and the pool pages to give. In
    /// `map`, or with another clone of the same set in hand, it may sleep for ever.
    pub fn bounce<A: Allocator + 'static>(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<A>),
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::bounce(self, select)
    }
}

impl<T: Target> Drop for Bio<T> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        unsafe { ManuallyDrop::take(&mut self.ptr) }.end(Err(BlkError::IOERR));
    }
}

/// Tells whether bios may be submitted here.
///
/// Not from interrupts, nor with them disabled: the lists of bios that a task has yet to submit,
/// `current->bio_list` and `current->plug`, are not protected from them.
#[inline]
pub(super) fn may_submit() -> bool {
    // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
    unsafe { bindings::in_task_irqs_on() }
}
