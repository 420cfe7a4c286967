// SPDX-License-Identifier: GPL-2.0

//! Clones: bios that a target allocates and sends in place of a bio that it owns.

use kernel::{
    num::casts::IntoSafeCast,
    prelude::*, //
};

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
            submit::sorted::SortedSubmitQueue,
            target::{
                devices::DeviceIndex,
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
            CompoundPage,
            Page, //
        }, //
    }, //
};

use super::{
    bounce::{
        self,
        CompoundSource,
        FreePages, //
    },
    owned::{
        may_submit,
        Bio,
        IrqBio, //
    },
    per_bio::{
        PerBio,
        PerBioRef, //
    }, //
};

/// A clone of a bio that the target owns. It shares the memory of this base bio, or has its own
/// memory of the same length.
///
/// Dropping it frees the clone and ends the base bio with [`BlkError::IOERR`].
///
/// # Invariants
///
/// - `clone` is a bio from a [`BioSet`] of the target, and is at no device. Its table of segments
///   has as many bytes as `base`, and its position is the first of them.
/// - The `CloneEnd` of `base` is set. If it has a `free_pages`, the clone owns its pages, and
///   `free_pages` may be called with the clone and the stored pool. Otherwise the pages are those
///   of `base`.
/// - `filled` counts bytes of these pages.
pub struct CloneBio<T: Target> {
    pub(super) base: ManuallyDrop<Bio<T>>,
    pub(in crate::block::dm) clone: NonNull<bindings::bio>,
    /// The number of bytes of the clone's own memory that were written.
    pub(super) filled: Filled,
}

// SAFETY: As for `Bio`; any task may free a bio and its pages.
unsafe impl<T: Target> Send for CloneBio<T> {}

/// The completion state of a clone, stored in the per-bio data of its base bio.
pub(in crate::block::dm) struct CloneEnd<T: Target> {
    /// The clone, if it is ready for submission.
    clone: *mut bindings::bio,
    /// The completion callback. It gets the base bio.
    done: fn(IrqBio<T>, BlkResult),
    /// Frees the pages of the clone, if the clone owns them.
    free_pages: Option<FreePages>,
    /// The pool of these pages.
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
    /// Returns the sector of a clone that is ready, or 0 without a clone.
    pub(in crate::block::dm) fn sector(&self) -> u64 {
        if self.clone.is_null() {
            return 0;
        }
        // SAFETY: The clone is alive until it is submitted.
        unsafe { (*self.clone).bi_iter.bi_sector }
    }

    /// Frees the clone.
    ///
    /// # Safety
    ///
    /// `clone` must be a bio from a set, and must not be used again. If `free_pages` is `Some`,
    /// calling it with `clone` and `pool` must be allowed.
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
            // The clone would share the integrity payload.
            return Err(base);
        }
        let set = select(base.target()).as_raw();

        // SAFETY:
        // - `set` is initialised, and lives as long as the target: `select` borrowed it from the
        //   target for an arbitrary lifetime.
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
        // SAFETY: The clone is alive and not shared. The position is in the table that it shares
        // with `base`.
        unsafe { (*clone.as_ptr()).bi_iter = base.ptr().iter() };
        base.ptr_mut().set_clone_end(CloneEnd::default());
        // SAFETY: The state was set above.
        Ok(unsafe { Self::new(base, clone) })
    }

    /// See [`Bio::bounce()`].
    pub(in crate::block::dm) fn bounce<S: Source<Memory = Page> + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<Self, Bio<T>> {
        Self::bounce_with(base, select, |_, _| None, bounce::free_pages::<S>)
    }

    /// See [`Bio::bounce_compound()`].
    pub(super) fn bounce_compound<S: CompoundSource + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<Self, Bio<T>> {
        Self::bounce_with(
            base,
            select,
            S::alloc_compound,
            bounce::free_compound_pages::<S>,
        )
    }

    /// Makes a clone with its own memory, which `free_pages` frees.
    fn bounce_with<S: Source<Memory = Page> + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
        alloc_compound: impl Fn(&S, NonZeroU32) -> Option<CompoundPage>,
        free_pages: FreePages,
    ) -> Result<Self, Bio<T>> {
        let mut base = Self::cloneable(base)?;
        if !base.ptr().may_call(free_pages as *const () as usize) {
            return Err(base);
        }
        let len = base.len_bytes().into_safe_cast();
        // The clone does not share the integrity payload of the base bio.
        //
        // SAFETY: The bio is alive.
        let opf = unsafe { (*base.ptr().bio()).bi_opf } & !bindings::REQ_INTEGRITY;
        let (set, pool) = select(base.target());
        let pool_ptr = core::ptr::from_ref(pool).cast();

        // SAFETY: Both live as long as the target, which the bio keeps alive: `select` borrowed
        // them from the target for an arbitrary lifetime.
        let Some(clone) = (unsafe { bounce::alloc(set, pool, opf, len, alloc_compound) }) else {
            return Err(base);
        };
        base.ptr_mut().set_clone_end(CloneEnd {
            free_pages: Some(free_pages),
            pool: pool_ptr,
            ..CloneEnd::default()
        });
        // SAFETY: The state was set above.
        Ok(unsafe { Self::new(base, clone) })
    }

    /// Returns `Ok` if the bio has data and this is no interrupt. Only bios with data can be
    /// cloned.
    fn cloneable(base: Bio<T>) -> Result<Bio<T>, Bio<T>> {
        match base.op() {
            Op::Read | Op::Write if base.len_bytes() > 0 && may_submit() => Ok(base),
            _ => Err(base),
        }
    }

    /// Wraps a new clone of `base`.
    ///
    /// # Safety
    ///
    /// The clone must meet the type invariants.
    unsafe fn new(base: Bio<T>, clone: NonNull<bindings::bio>) -> Self {
        // SAFETY: Both bios are alive and not shared.
        unsafe {
            (*clone.as_ptr()).bi_ioprio = (*base.ptr().bio()).bi_ioprio;
            (*clone.as_ptr()).bi_write_hint = (*base.ptr().bio()).bi_write_hint;
            (*clone.as_ptr()).bi_write_stream = (*base.ptr().bio()).bi_write_stream;
            // Polling looks at device mapper's bios only.
            (*clone.as_ptr()).bi_opf &= !bindings::REQ_POLLED;
        }
        // INVARIANT: By this function's contract.
        Self {
            base: ManuallyDrop::new(base),
            clone,
            filled: Filled::new(),
        }
    }

    /// Returns the target, an iterator over the memory of the base bio, and a mutable iterator over
    /// the clone's own memory.
    ///
    /// The last is empty if the clone shares the memory of the base bio, see [`Bio::share()`].
    ///
    /// Context: Any context. Never sleeps.
    pub fn segments(&mut self) -> (Pin<&T>, Segments<'_>, SegmentsMut<'_>) {
        // SAFETY: The clone is alive by the type invariants.
        let (table, mut iter) = unsafe {
            (
                (*self.clone.as_ptr()).bi_io_vec,
                (*self.clone.as_ptr()).bi_iter,
            )
        };
        if !self.is_own() {
            iter.bi_size = 0;
        }
        // SAFETY: The clone owns the table and its pages, by the type invariants, or there are 0
        // bytes. `self` is borrowed mutably, so there is no other iterator. `filled` counts bytes
        // of these pages.
        let own = unsafe { SegmentsMut::new_unfilled(table, iter, &self.filled) };
        (self.base.target(), self.base.segments(), own)
    }

    /// Frees the clone, and returns the base bio.
    ///
    /// Context: Any context. Never sleeps.
    pub fn into_base(self) -> Bio<T> {
        let mut this = ManuallyDrop::new(self);
        this.free_clone();
        // SAFETY: `this` is not used again, and not dropped.
        unsafe { ManuallyDrop::take(&mut this.base) }
    }

    /// Sends the clone to `sector` of `device`. On completion, the clone is freed, and `done` gets
    /// the base bio and the result of the device.
    ///
    /// `done` runs in any context including hard interrupts, so it gets an [`IrqBio`]. The base bio
    /// ends with [`BlkError::IOERR`] at once in these cases:
    ///
    /// - `device` belongs to another target.
    /// - The call is from an interrupt or with interrupts disabled.
    /// - `done` is not code of the module of the target.
    /// - `device` does not support the integrity payload of the clone.
    /// - The clone is a write, and its own memory was not written completely and in order, see
    ///   [`Bio::bounce()`].
    ///
    /// Context: Process context. May sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(self, device: DeviceIndex, sector: u64, done: fn(IrqBio<T>, BlkResult)) {
        if !may_submit() {
            return;
        }
        if let Some(base) = self.ready(device, sector, done) {
            // SAFETY: The clone was made ready above.
            unsafe { base.into_ptr().submit_clone() };
        }
    }

    /// As [`CloneBio::submit()`], but the worker of a queue of the target submits the clone.
    ///
    /// A clone without tags may be queued in an interrupt or with interrupts disabled.
    ///
    /// Context: Any context. May sleep if the clone has tags.
    pub fn submit_sorted(
        self,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x SortedSubmitQueue<T>,
        device: DeviceIndex,
        sector: u64,
        done: fn(IrqBio<T>, BlkResult),
    ) {
        if let Some(base) = self.ready(device, sector, done) {
            let queue = NonNull::from(select(base.target()));
            // SAFETY: The clone was made ready above. `select` borrowed the queue from the target
            // for an arbitrary lifetime, so it lives as long as the target.
            unsafe { SortedSubmitQueue::push(queue, base.into_ptr()) };
        }
    }

    /// Makes the clone ready for submission, and stores it in the per-bio data of its base bio.
    ///
    /// Ends the base bio if `device` belongs to another target or does not support such a payload,
    /// if the write would send stale memory, or if `done` may not be called.
    fn ready(
        self,
        device: DeviceIndex,
        sector: u64,
        done: fn(IrqBio<T>, BlkResult),
    ) -> Option<Bio<T>> {
        let is_own_write = self.base.op() == Op::Write && self.is_own();
        if is_own_write && self.filled.len() != self.base.len_bytes() {
            return None;
        }
        if !self.base.ptr().may_call(done as *const () as usize) {
            return None;
        }
        let bdev = self.base.ptr().inner().devices().bdev(device)?;
        let mut this = self;
        let clone = this.clone.as_ptr();
        // SAFETY: The clone is alive, and the device is open while the target lives.
        unsafe { bindings::bio_set_dev(clone, bdev) };
        // SAFETY: The clone is alive and not shared.
        unsafe { (*clone).bi_iter.bi_sector = sector };
        // SAFETY: The clone is alive and owned here, and its base bio is not used until the clone
        // completes.
        if unsafe { this.base.ptr_mut().attach_integrity(clone) }.is_err() {
            return None;
        }

        let mut this = ManuallyDrop::new(this);
        // SAFETY: `this` is not used again, and not dropped.
        let mut base = unsafe { ManuallyDrop::take(&mut this.base) };
        // SAFETY: The state is set, by the type invariants of the `CloneBio`.
        let clone_end = unsafe { base.ptr_mut().clone_end_mut() };
        clone_end.done = done;
        clone_end.clone = clone;

        // SAFETY: The clone is alive and not shared.
        unsafe {
            (*clone).bi_end_io = Some(target_type::end_clone);
        }
        Some(base)
    }

    /// Handles the completion of a clone.
    ///
    /// # Safety
    ///
    /// Must be called once for a clone of a target `T` that [`PerBioRef::submit_clone()`]
    /// submitted, when the device has completed it. The caller must be in a section that keeps the
    /// code of `T` after the bio has ended.
    pub(in crate::block::dm) unsafe fn end_clone(clone: *mut bindings::bio) {
        // SAFETY: `submit_clone()` set `bi_private`, and gave up its pointer for this call.
        let base = unsafe { PerBio::<T>::from_raw((*clone).bi_private.cast()) };
        // SAFETY: The clone is alive until it is freed below.
        let result = BlkError::result_from_raw(unsafe { (*clone).bi_status });
        // SAFETY: The clone was made ready, so the state is set.
        let clone_end = unsafe { base.clone_end() };
        let done = clone_end.done;

        if let Some(clone) = NonNull::new(clone) {
            // Free the clone before the target may be gone.
            //
            // SAFETY: The device has completed the clone. Its pages are from the stored pool, by
            // the type invariants of the `CloneBio` that was submitted.
            unsafe { clone_end.free(clone) };
        }
        // May end the bio, so this may be the last use of the target. The code stays, by this
        // function's contract.
        done(Bio::new(base), result);
    }

    /// Returns the completion state of the clone.
    fn clone_end(&self) -> &CloneEnd<T> {
        // SAFETY: The state is set, by the type invariants.
        unsafe { self.base.ptr().clone_end() }
    }

    /// Returns whether the clone owns its pages.
    pub(super) fn is_own(&self) -> bool {
        self.clone_end().free_pages.is_some()
    }

    fn free_clone(&mut self) {
        // SAFETY: The callers do not use the clone again, and its pages are from the stored pool,
        // by the type invariants.
        unsafe { self.clone_end().free(self.clone) };
    }
}

impl<T: Target> PerBioRef<T> {
    /// Submits the clone that was made ready, instead of the bio.
    ///
    /// # Safety
    ///
    /// [`CloneBio::ready()`] must have made the clone ready, and it must not be submitted yet. The
    /// caller must be in process context with interrupts enabled.
    pub(in crate::block::dm) unsafe fn submit_clone(mut self) {
        let base = self.bio();
        // SAFETY: The clone was made ready, so the state is set.
        let clone_end = unsafe { self.clone_end_mut() };
        let clone = core::mem::replace(&mut clone_end.clone, core::ptr::null_mut());
        let this = self.into_raw();

        // SAFETY: The clone is alive and not shared, by this function's contract.
        unsafe { (*clone).bi_private = this.cast() };
        // SAFETY: `base` is device mapper's clone. It stays alive until `CloneBio::end_clone()`
        // passes it to `done`. `accounts_remapped_io` is set for each target. Neither bio is used
        // again here.
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
