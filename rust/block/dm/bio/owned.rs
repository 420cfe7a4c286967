// SPDX-License-Identifier: GPL-2.0

//! A bio that a target owns.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    mem::ManuallyDrop, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult, //
        },
        dm::target::{
            devices::DeviceIndex,
            Target, //
        }, //
    },
    mm::{
        mempool::{
            Mempool,
            Source, //
        },
        page::Page, //
    },
    sync::workqueue::Workqueue, //
};

use super::{
    bounce::CompoundSource,
    clone::CloneBio,
    getters::impl_getters,
    per_bio::PerBioRef, //
};

/// A bio that the target owns until it ends the bio.
///
/// Dropping it ends the bio with [`BlkError::IOERR`]. A leaked bio never ends: tasks that wait for
/// it, and the removal of the device, hang.
///
/// # Invariants
///
/// `ptr` is a bio that has not left the target and is at no device.
pub struct Bio<T: Target, C = InTask> {
    ptr: ManuallyDrop<PerBioRef<T>>,
    _context: PhantomData<C>,
}

/// An owned [`Bio`] in a function that may run in an interrupt.
///
/// The functions of [`EndBio::defer()`], [`CloneBio::submit()`] and [`Bio::queue_bh()`] get one.
/// It has the operations that do not sleep. [`Bio::queue()`] moves it to process context.
///
/// [`EndBio::defer()`]: crate::block::dm::EndBio::defer
pub type IrqBio<T> = Bio<T, InIrq>;

/// The context of a [`Bio`] that may be submitted and cloned.
pub enum InTask {}

/// The context of an [`IrqBio`].
pub enum InIrq {}

// SAFETY: Another task or an interrupt may end a bio. The target, which a bio lends, is `Sync`, and
// its data is `Send`, by the bounds of `Target`.
unsafe impl<T: Target, C> Send for Bio<T, C> {}

impl<T: Target, C> Bio<T, C> {
    impl_getters!();

    /// Makes the owner of a bio.
    #[inline]
    pub(in crate::block::dm) fn new(ptr: PerBioRef<T>) -> Self {
        // INVARIANT: The owner of the pointer owns the bio.
        Self {
            ptr: ManuallyDrop::new(ptr),
            _context: PhantomData,
        }
    }

    /// Returns the pointer to the bio.
    #[inline]
    pub(in crate::block::dm) fn ptr(&self) -> &PerBioRef<T> {
        &self.ptr
    }

    /// Returns the pointer to the bio.
    #[inline]
    pub(super) fn ptr_mut(&mut self) -> &mut PerBioRef<T> {
        &mut self.ptr
    }

    /// Gives up the ownership, without ending the bio.
    #[inline]
    pub(super) fn into_ptr(self) -> PerBioRef<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.ptr) }
    }

    /// Ends the bio. The target may be gone when `end()` returns.
    ///
    /// Context: Any context. Never sleeps. C: `bio_endio()` in `block/bio.c`.
    #[inline]
    pub fn end(self, result: BlkResult) {
        self.into_ptr().end(result);
    }

    /// Runs `func` with the bio on a workqueue of the target.
    ///
    /// Allocates nothing: the work item is part of the per-bio data. The bio ends with
    /// [`BlkError::IOERR`] if `func` is not code of the module of the target.
    ///
    /// Context: Any context. Never sleeps. `func` runs in process context and may sleep.
    #[inline]
    pub fn queue(self, select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x Workqueue, func: fn(Bio<T>)) {
        if self.ptr.may_call(func as *const () as usize) {
            self.into_ptr().queue(select, func);
        }
    }

    /// Runs `func` with the bio in softirq context on this CPU.
    ///
    /// Allocates nothing, and ends the bio in the same case, as [`Bio::queue()`]. `func` must be
    /// short: only interrupts run on the CPU meanwhile.
    ///
    /// Context: Any context. Never sleeps. C: `system_bh_wq`.
    #[inline]
    pub fn queue_bh(self, func: fn(IrqBio<T>)) {
        if self.ptr.may_call(func as *const () as usize) {
            self.into_ptr().queue_bh(func);
        }
    }
}

impl<T: Target> Bio<T> {
    /// Sends the bio to `sector` of `device`. [`Target::end_io()`] handles its completion.
    ///
    /// A completed bio may be sent again. The bio ends with [`BlkError::IOERR`] if `device` belongs
    /// to another target, and in a call from an interrupt or with interrupts disabled.
    ///
    /// Context: Process context. May sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(mut self, device: DeviceIndex, sector: u64) {
        if may_submit() && self.ptr.remap(device, sector).is_some() {
            self.into_ptr().submit();
        }
    }

    /// Makes a clone that shares the memory of the bio.
    ///
    /// Fails, and returns the bio, if it is neither a read nor a write, or in an interrupt.
    ///
    /// Context: Process context. May sleep. Waits until the set has a bio. May deadlock if the
    /// caller holds another bio of the same set, or has submitted one in the same call of `map`.
    pub fn share(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x BioSet,
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::share(self, select)
    }

    /// Makes a clone with its own memory of the same length, in pages from a pool.
    ///
    /// Fails, and returns the bio, if it is neither a read nor a write, if it has more pages than
    /// the pool guarantees, in an interrupt, and in a module that is not that of the target.
    ///
    /// The pages contain stale data, which must not reach a device. So before a write is sent,
    /// [`CloneBio::segments()`] must have been written from first to last: by a cipher, by
    /// [`SegmentsMut::copy_from()`], or by [`SegmentMut::write_at()`]. Otherwise the write is not
    /// sent.
    ///
    /// [`SegmentsMut::copy_from()`]: crate::block::bio::SegmentsMut::copy_from
    /// [`SegmentMut::write_at()`]: crate::block::bio::SegmentMut::write_at
    ///
    /// Context: Process context. May sleep. Waits until the set has a bio and the pool has pages.
    /// May deadlock if the caller holds another clone of the same set, or has submitted one in the
    /// same call of `map`.
    pub fn bounce<S: Source<Memory = Page> + 'static>(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::bounce(self, select)
    }

    /// As [`Bio::bounce()`], with memory in blocks of pages if the source of the pool can allocate
    /// blocks.
    ///
    /// A few large segments cost a device less than many small segments.
    ///
    /// Context: As [`Bio::bounce()`].
    pub fn bounce_compound<S: CompoundSource + 'static>(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::bounce_compound(self, select)
    }
}

impl<T: Target, C> Drop for Bio<T, C> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        unsafe { ManuallyDrop::take(&mut self.ptr) }.end(Err(BlkError::IOERR));
    }
}

/// Returns whether this task may wait here for a bio that it submits here.
///
/// Not in `map`: a bio that is submitted there is sent after `map` has returned, see
/// `submit_bio_noacct()` in `block/blk-core.c`.
#[inline]
pub(in crate::block::dm) fn may_wait() -> bool {
    // SAFETY: Reads a field of this task that no other task writes.
    may_submit() && !unsafe { bindings::current_has_bio_list() }
}

/// Returns whether this is outside hard interrupts and interrupts are enabled.
#[inline]
pub(super) fn irqs_enabled() -> bool {
    // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
    unsafe { bindings::irqs_on() }
}

/// Returns whether bios may be submitted here.
///
/// Not in interrupts, and not with interrupts disabled: the task's lists of bios to submit,
/// `current->bio_list` and `current->plug`, are not interrupt-safe.
#[inline]
pub(in crate::block::dm) fn may_submit() -> bool {
    // SAFETY: Reads the preemption count and the interrupt flag of this CPU.
    unsafe { bindings::in_task_irqs_on() }
}
