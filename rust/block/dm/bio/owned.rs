// SPDX-License-Identifier: GPL-2.0

//! A bio that a target owns.

use kernel::prelude::*;

use core::mem::ManuallyDrop;

use crate::{
    bindings,
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult,
            Op,
            Segments,
            SegmentsMut, //
        },
        dm::target::{
            devices::Device,
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
    bounce::Blocks,
    clone::CloneBio,
    irq::IrqBio,
    per_bio::Ptr, //
};

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
    pub(in crate::block::dm) fn new(ptr: Ptr<T>) -> Self {
        // INVARIANT: Whoever has the pointer has the bio.
        Self {
            ptr: ManuallyDrop::new(ptr),
        }
    }

    /// Returns the pointer to the bio.
    #[inline]
    pub(in crate::block::dm) fn ptr(&self) -> &Ptr<T> {
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
        self.ptr.segments_mut()
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

    /// Runs `func` with the bio in softirq context, on this CPU.
    ///
    /// Cannot fail, as [`Bio::queue()`]. Not for much work: nothing but interrupts runs on the CPU
    /// meanwhile.
    ///
    /// Context: Any. C: `system_bh_wq`.
    #[inline]
    pub fn queue_soft(self, func: fn(IrqBio<T>)) {
        self.into_ptr().queue_soft(func);
    }

    /// Makes a clone that shares the bio's memory.
    ///
    /// Fails, and gives the bio back, unless it is a read or a write, and in an interrupt.
    ///
    /// Context: Process context; sleeps until the set has a bio to give. With another bio of the
    /// same set in hand, or that was submitted in the same call of `map`, it may sleep for ever.
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
    /// The pages have whatever was in them before. That must not get to a device, so before a write goes
    /// out, [`CloneBio::segments()`] must have been written from the first to the last: by a cipher, by
    /// [`SegmentsMut::copy_from()`], or by [`SegmentMut::write_at()`]. It does not go out otherwise.
    ///
    /// [`SegmentMut::write_at()`]: crate::block::bio::SegmentMut::write_at
    ///
    /// Context: Process context; sleeps until the set has a bio, and the pool pages to give. With
    /// another clone of the same set in hand, or that was submitted in the same call of `map`, it may
    /// sleep for ever.
    pub fn bounce<S: Source<Memory = Page> + 'static>(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::bounce(self, select)
    }

    /// As [`Bio::bounce()`], with memory in blocks of pages as far as the source of the pool has some.
    ///
    /// A device has less to do with a few large pieces of memory than with many small ones.
    ///
    /// Context: As [`Bio::bounce()`].
    pub fn bounce_blocks<S: Blocks + 'static>(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<CloneBio<T>, Self> {
        CloneBio::bounce_blocks(self, select)
    }
}

impl<T: Target> Drop for Bio<T> {
    fn drop(&mut self) {
        // SAFETY: `self` is not used again.
        unsafe { ManuallyDrop::take(&mut self.ptr) }.end(Err(BlkError::IOERR));
    }
}

/// Tells whether a bio that is submitted here may be waited for here.
///
/// Not in `map`: what is submitted there goes out when it has returned, see `submit_bio_noacct()` in
/// `block/blk-core.c`.
#[inline]
pub(super) fn may_wait() -> bool {
    // SAFETY: Reads a field of this task, which nobody else writes.
    may_submit() && !unsafe { bindings::current_has_bio_list() }
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
