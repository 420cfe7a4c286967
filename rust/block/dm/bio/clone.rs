// SPDX-License-Identifier: GPL-2.0

//! Clones: bios of a target's own that stand for one that it owns.

use kernel::prelude::*;

use core::{
    mem::ManuallyDrop,
    num::NonZeroU32,
    ptr::NonNull, //
};

use crate::{
    bindings,
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult,
            Filled,
            Op,
            Segments,
            SegmentsMut, //
        },
        dm::{
            submit::sorted::SendQueue,
            target::{
                devices::Device,
                target_type,
                Target, //
            }, //
        }, //
    },
    mm::{
        gfp::Gfp,
        mempool::{
            Mempool,
            Source, //
        },
        page::{
            Block,
            Page, //
        }, //
    }, //
};

use super::{
    bounce::{
        self,
        Blocks,
        FreePages, //
    },
    irq::IrqBio,
    owned::{
        may_submit,
        Bio, //
    },
    per_bio::{
        PerBio,
        Ptr, //
    }, //
};

/// A bio of the target's own, with memory shared with or as large as that of a bio it owns.
///
/// Dropping it frees the clone and ends the other bio with [`BlkError::IOERR`].
///
/// # Invariants
///
/// - `clone` is a bio from a [`BioSet`] of the target's, that no device has. Its table of segments
///   has as many bytes as `base` has, and its position is the first of them.
/// - If the `CloneEnd` of `base` has a `free_pages`, the pages are the clone's own, and it may be
///   called with the clone and the pool noted there; otherwise they are those of `base`.
/// - `filled` is of those pages.
pub struct CloneBio<T: Target> {
    pub(super) base: ManuallyDrop<Bio<T>>,
    pub(in crate::block::dm) clone: NonNull<bindings::bio>,
    /// How much of its own memory was written.
    filled: Filled,
}

// SAFETY: As for `Bio`; a bio and its pages may be freed by any task.
unsafe impl<T: Target> Send for CloneBio<T> {}

/// What is to be done when a clone comes back, noted with the bio that it stands for.
pub(in crate::block::dm) struct CloneEnd<T: Target> {
    /// The clone, if it is ready to be sent.
    clone: *mut bindings::bio,
    /// What gets the bio that the clone stands for.
    done: fn(IrqBio<T>, BlkResult),
    /// How the pages of the clone are freed, if they are its own.
    free_pages: Option<FreePages>,
    /// The pool that they are from.
    pool: *const (),
}

impl<T: Target> Default for CloneEnd<T> {
    fn default() -> Self {
        Self {
            clone: core::ptr::null_mut(),
            done: IrqBio::end,
            free_pages: None,
            pool: core::ptr::null(),
        }
    }
}

impl<T: Target> CloneEnd<T> {
    /// Returns where a clone that is ready goes to, 0 if there is none.
    pub(in crate::block::dm) fn sector(&self) -> u64 {
        if self.clone.is_null() {
            return 0;
        }
        // SAFETY: The clone is there until it is sent.
        unsafe { (*self.clone).bi_iter.bi_sector }
    }

    /// Tells whether the pages of the clone are its own.
    pub(super) fn is_own(&self) -> bool {
        self.free_pages.is_some()
    }

    /// Frees the clone.
    ///
    /// # Safety
    ///
    /// `clone` must be a bio from a set that is not used again, for which `free_pages` may be
    /// called with `pool` if it is there.
    unsafe fn free(&self, clone: NonNull<bindings::bio>) {
        if let Some(free_pages) = self.free_pages {
            // SAFETY: By this function's contract.
            unsafe { free_pages(clone, self.pool) };
        }
        // SAFETY: By this function's contract.
        unsafe { bindings::bio_put(clone.as_ptr()) };
    }
}

impl<T: Target> CloneBio<T> {
    /// See [`Bio::share()`].
    pub(super) fn share(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x BioSet,
    ) -> Result<Self, Bio<T>> {
        let mut base = Self::cloneable(base)?;
        // SAFETY: The bio is alive.
        if unsafe { (*base.ptr().bio()).bi_opf } & bindings::REQ_INTEGRITY != 0 {
            // The clone would have the same tags.
            return Err(base);
        }
        let set = select(base.target()).as_raw();

        // SAFETY:
        // - `set` is initialised, and lives as long as the target: `select` borrowed it from there
        //   for as long as it likes.
        // - `base` is alive, and ends after the clone, see `end_clone()`.
        let clone = NonNull::new(unsafe {
            bindings::bio_alloc_clone(
                core::ptr::null_mut(),
                base.ptr().bio(),
                Gfp::NOIO.as_raw(),
                set,
            )
        });
        let Some(clone) = clone else { return Err(base) };
        // SAFETY: The clone is alive and nobody else's. The position is one in the table that it
        // shares with `base`.
        unsafe { (*clone.as_ptr()).bi_iter = base.ptr().iter() };
        *base.ptr_mut().clone_end_mut() = CloneEnd::default();
        Ok(Self::new(base, clone))
    }

    /// See [`Bio::bounce()`].
    pub(in crate::block::dm) fn bounce<S: Source<Memory = Page> + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<Self, Bio<T>> {
        Self::bounce_with(base, select, |_, _| None, bounce::free_pages::<S>)
    }

    /// See [`Bio::bounce_blocks()`].
    pub(super) fn bounce_blocks<S: Blocks + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<Self, Bio<T>> {
        Self::bounce_with(base, select, S::alloc_block, bounce::free_blocks::<S>)
    }

    /// Makes a clone with memory of its own, which `free_pages` frees.
    fn bounce_with<S: Source<Memory = Page> + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
        block: impl Fn(&S, NonZeroU32) -> Option<Block>,
        free_pages: FreePages,
    ) -> Result<Self, Bio<T>> {
        let mut base = Self::cloneable(base)?;
        // CAST: From 32 to 64 bits.
        let len = base.len_bytes() as usize;
        // Of the tags of another bio it has none.
        //
        // SAFETY: The bio is alive.
        let opf = unsafe { (*base.ptr().bio()).bi_opf } & !bindings::REQ_INTEGRITY;
        let (set, pool) = select(base.target());
        let pool_ptr = core::ptr::from_ref(pool).cast();

        // SAFETY: They live as long as the target, which the bio keeps alive: `select` borrowed them
        // from there for as long as it likes.
        let Some(clone) = (unsafe { bounce::alloc(set, pool, opf, len, block) }) else {
            return Err(base);
        };
        *base.ptr_mut().clone_end_mut() = CloneEnd {
            free_pages: Some(free_pages),
            pool: pool_ptr,
            ..CloneEnd::default()
        };
        Ok(Self::new(base, clone))
    }

    /// Gives `base` back unless it has data, as only that can be cloned, and this is no interrupt.
    fn cloneable(base: Bio<T>) -> Result<Bio<T>, Bio<T>> {
        match base.op() {
            Op::Read | Op::Write if base.len_bytes() > 0 && may_submit() => Ok(base),
            _ => Err(base),
        }
    }

    fn new(base: Bio<T>, clone: NonNull<bindings::bio>) -> Self {
        // SAFETY: Both bios are alive, and nobody else's.
        unsafe {
            (*clone.as_ptr()).bi_ioprio = (*base.ptr().bio()).bi_ioprio;
            (*clone.as_ptr()).bi_write_hint = (*base.ptr().bio()).bi_write_hint;
            (*clone.as_ptr()).bi_write_stream = (*base.ptr().bio()).bi_write_stream;
            // Who polls looks at device mapper's bios only.
            (*clone.as_ptr()).bi_opf &= !bindings::REQ_POLLED;
        }
        // INVARIANT: The callers just made the clone so.
        Self {
            base: ManuallyDrop::new(base),
            clone,
            filled: Filled::new(),
        }
    }

    /// Returns the target, a walk over the memory of the bio that the clone stands for, and one
    /// over the clone's own.
    ///
    /// The last is [`None`] if the clone has none of its own, see [`Bio::share()`].
    ///
    /// Context: Any.
    pub fn segments(&mut self) -> (Pin<&T>, Segments<'_>, Option<SegmentsMut<'_>>) {
        let own = self.base.ptr().clone_end().free_pages.map(|_| {
            // SAFETY: The clone is alive by the type invariants.
            let (table, iter) = unsafe {
                (
                    (*self.clone.as_ptr()).bi_io_vec,
                    (*self.clone.as_ptr()).bi_iter,
                )
            };
            // SAFETY: The table and the pages in it are the clone's own, by the type invariants,
            // and `self` is borrowed mutably, so there is no other walk. `filled` is of them.
            unsafe { SegmentsMut::new_unfilled(table, iter, &self.filled) }
        });
        (self.base.target(), self.base.segments(), own)
    }

    /// Frees the clone, and returns the bio that it stands for.
    ///
    /// Context: Any.
    pub fn into_base(self) -> Bio<T> {
        let mut this = ManuallyDrop::new(self);
        this.free_clone();
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.base) }
    }

    /// Sends the clone to `sector` of `device`; when it comes back, it is freed, and `done` gets
    /// the bio that it stands for, and how the device ended the clone.
    ///
    /// `done` runs in any context, also in hard interrupts, which is why it gets an [`IrqBio`]. A
    /// `device` of another target ends the bio with [`BlkError::IOERR`] at once, and so does a call
    /// from an interrupt or with interrupts disabled, and a write whose own memory was not written,
    /// all of it and in order, see [`Bio::bounce()`].
    ///
    /// Context: Process context; may sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(self, device: Device, sector: u64, done: fn(IrqBio<T>, BlkResult)) {
        if !may_submit() {
            return;
        }
        if let Some(base) = self.ready(device, sector, done) {
            // SAFETY: It was made ready just now.
            unsafe { base.into_ptr().submit_clone() };
        }
    }

    /// As [`CloneBio::submit()`], by the worker of a queue of the target's.
    ///
    /// Context: Any.
    pub fn submit_in_order(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x SendQueue<T>,
        device: Device,
        sector: u64,
        done: fn(IrqBio<T>, BlkResult),
    ) {
        if let Some(base) = self.ready(device, sector, done) {
            let queue = NonNull::from(select(base.target()));
            // SAFETY: The clone was made ready just now. `select` borrowed the queue from the target
            // for as long as it likes, so it lives as long as the target.
            unsafe { SendQueue::push(queue, base.into_ptr()) };
        }
    }

    /// Makes the clone ready to be sent, and notes it with the bio that it stands for.
    ///
    /// Ends the bio if `device` is another target's, or does not keep such tags, or if it would get
    /// what somebody else left in memory.
    fn ready(self, device: Device, sector: u64, done: fn(IrqBio<T>, BlkResult)) -> Option<Bio<T>> {
        let is_own_write = self.base.op() == Op::Write && self.base.ptr().clone_end().is_own();
        if is_own_write && self.filled.len() != self.base.len_bytes() {
            return None;
        }
        let bdev = self.base.ptr().inner().devices().bdev(device)?;
        let mut this = self;
        let clone = this.clone.as_ptr();
        // SAFETY: The clone is alive, and the device open as long as the target lives.
        unsafe { bindings::bio_set_dev(clone, bdev) };
        // SAFETY: The clone is alive, and nobody else's.
        unsafe { (*clone).bi_iter.bi_sector = sector };
        // SAFETY: The clone is as it should be, and its bio is not used until it comes back.
        if unsafe { this.base.ptr_mut().attach_tags(clone) }.is_err() {
            return None;
        }

        let mut this = ManuallyDrop::new(this);
        // SAFETY: `this` is not used again, and not dropped.
        let mut base = unsafe { ManuallyDrop::take(&mut this.base) };
        let clone_end = base.ptr_mut().clone_end_mut();
        clone_end.done = done;
        clone_end.clone = clone;

        // SAFETY: The clone is alive, and nobody else's.
        unsafe {
            (*clone).bi_end_io = Some(target_type::end_clone);
        }
        Some(base)
    }

    /// Takes a clone back.
    ///
    /// # Safety
    ///
    /// Must be called once for a clone of a target `T` that [`Ptr::submit_clone()`] submitted, when the
    /// device is done with it, in a section that keeps the code of `T` after the bio has ended.
    pub(in crate::block::dm) unsafe fn end_clone(clone: *mut bindings::bio) {
        // SAFETY: `submit_clone()` set `bi_private` so, and gave its pointer up for this call.
        let base = unsafe { PerBio::<T>::from_raw((*clone).bi_private.cast()) };
        // SAFETY: The clone is alive until it is freed below.
        let result = BlkError::result_from_raw(unsafe { (*clone).bi_status });
        let done = base.clone_end().done;

        if let Some(clone) = NonNull::new(clone) {
            // The clone goes before the target may.
            //
            // SAFETY: The device is done with the clone, and its pages are from the pool noted, by
            // the type invariants of the `CloneBio` that was submitted.
            unsafe { base.clone_end().free(clone) };
        }
        // May end the bio, so it may be the last use of the target. The code stays, by this function's
        // contract.
        done(IrqBio::new(Bio::new(base)), result);
    }

    fn free_clone(&mut self) {
        // SAFETY: The callers do not use the clone again, and its pages are from the pool noted, by
        // the type invariants.
        unsafe { self.base.ptr().clone_end().free(self.clone) };
    }
}

impl<T: Target> Ptr<T> {
    /// Sends the clone that was made ready, instead of the bio.
    ///
    /// # Safety
    ///
    /// [`CloneBio::ready()`] must have made it ready, and it must not be sent yet. May only be called
    /// in process context with interrupts enabled.
    pub(in crate::block::dm) unsafe fn submit_clone(mut self) {
        let base = self.bio();
        let clone = core::mem::replace(&mut self.clone_end_mut().clone, core::ptr::null_mut());
        let this = self.into_raw();

        // SAFETY: The clone is alive, and nobody else's, by this function's contract.
        unsafe { (*clone).bi_private = this.cast() };
        // SAFETY: `base` is device mapper's clone, which stays until `CloneBio::end_clone()` gives
        // it to `done`; `accounts_remapped_io` is set for each target. Neither is used again here.
        unsafe { bindings::dm_submit_bio_remap(base, clone) };
    }
}

impl<T: Target> Drop for CloneBio<T> {
    fn drop(&mut self) {
        self.free_clone();
        // SAFETY: `self` is not used again.
        drop(unsafe { ManuallyDrop::take(&mut self.base) });
    }
}
