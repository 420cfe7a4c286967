// SPDX-License-Identifier: GPL-2.0

//! Clones: bios of a target's own that stand for one that it owns.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    mem::ManuallyDrop,
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
        SegmentsMut, //
    },
    gfp::Gfp,
    mempool::{
        Mempool,
        Source, //
    },
    page::Page, //
};

use super::{
    bio::{
        may_submit,
        Bio, //
    },
    per_bio::PerBio,
    table::Device,
    target::Target, //
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
pub struct CloneBio<T: Target> {
    base: ManuallyDrop<Bio<T>>,
    clone: NonNull<bindings::bio>,
}

// SAFETY: As for `Bio`; a bio and its pages may be freed by any task.
unsafe impl<T: Target> Send for CloneBio<T> {}

/// Gives the pages of a clone back to the pool they are from.
type FreePages = unsafe fn(NonNull<bindings::bio>, *const ());

/// What is to be done when a clone comes back, noted with the bio that it stands for.
pub(super) struct CloneEnd<T: Target> {
    /// What gets the bio that the clone stands for.
    done: fn(Bio<T>, BlkResult),
    /// How the pages of the clone are freed, if they are its own.
    free_pages: Option<FreePages>,
    /// The pool that they are from.
    pool: *const (),
}

impl<T: Target> Default for CloneEnd<T> {
    fn default() -> Self {
        Self {
            done: Bio::end,
            free_pages: None,
            pool: core::ptr::null(),
        }
    }
}

impl<T: Target> CloneEnd<T> {
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

/// Gives the pages of a clone back to its pool.
///
/// # Safety
///
/// `clone` must be a bio whose segments are not used again, with one page from `pool`, a
/// [`Mempool<S>`], in each of them.
unsafe fn free_pages<S: Source<Memory = Page> + 'static>(
    clone: NonNull<bindings::bio>,
    pool: *const (),
) {
    // SAFETY: `clone` is alive by this function's contract.
    let (table, count) = unsafe { ((*clone.as_ptr()).bi_io_vec, (*clone.as_ptr()).bi_vcnt) };
    let count = usize::from(count);
    let pages = table.cast::<*mut bindings::page>();

    // The pages go to the head of the table: entry `i` ends at `8 * (i + 1)`, so it covers no
    // segment behind the `i`th, which begins at `16 * (i + 1)`.
    for i in 0..count {
        // SAFETY: The table has `count` segments, and those from `i` on are still there.
        let page = unsafe { (*table.add(i)).bv_page };
        // SAFETY: The table has room for twice as many pages as segments.
        unsafe { pages.add(i).write(page) };
    }
    // SAFETY: `count` pages were written, and the table is this clone's own.
    let pages = unsafe { core::slice::from_raw_parts_mut(pages, count) };
    // SAFETY: `pool` is a `Mempool<S>`, alive, by this function's contract.
    let pool = unsafe { &*pool.cast::<Mempool<S>>() };
    // SAFETY: The pages came from the pool and are used by nobody, by this function's contract.
    unsafe { pool.free_bulk_raw(pages) };
}

impl<T: Target> CloneBio<T> {
    /// See [`Bio::share()`].
    pub(super) fn share(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> &'x BioSet,
    ) -> Result<Self, Bio<T>> {
        let mut base = Self::cloneable(base)?;
        let set = select(base.target()).as_raw();

        // SAFETY:
        // - `set` is initialised, and lives as long as the target: `select` borrowed it from there
        //   for as long as it likes.
        // - `base` is alive, and ends after the clone, see `end_io()`.
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
    pub(super) fn bounce<S: Source<Memory = Page> + 'static>(
        base: Bio<T>,
        select: impl for<'x> FnOnce(Pin<&'x T>) -> (&'x BioSet, &'x Mempool<S>),
    ) -> Result<Self, Bio<T>> {
        let mut base = Self::cloneable(base)?;
        // CAST: From 32 to 64 bits.
        let len = base.len_bytes() as usize;
        let count = len.div_ceil(PAGE_SIZE);
        let (set, pool) = select(base.target());
        let (set, pool_ptr) = (set.as_raw(), core::ptr::from_ref(pool).cast());

        if count > pool.min_nr() || count > bindings::BIO_MAX_VECS as usize {
            return Err(base);
        }
        // SAFETY:
        // - `set` is initialised, has tables of segments, and lives as long as the target:
        //   `select` borrowed it from there for as long as it likes.
        // - `count` is at most `BIO_MAX_VECS`, checked above.
        let clone = NonNull::new(unsafe {
            bindings::bio_alloc_bioset(
                core::ptr::null_mut(),
                // CAST: At most `BIO_MAX_VECS`, see above.
                count as u16,
                (*base.ptr().bio()).bi_opf,
                Gfp::NOIO.as_raw(),
                set,
            )
        });
        let Some(clone) = clone else { return Err(base) };

        // The list of pages is made in the tail of the table that the segments will fill from its
        // head: segment `i` ends at `16 * (i + 1)`, and page `i` is at `8 * count + 8 * i`, so as
        // long as `i < count` it covers no page behind the `i`th.
        //
        // SAFETY: The clone is alive and has a table of at least `count` segments.
        let pages = unsafe {
            (*clone.as_ptr())
                .bi_io_vec
                .cast::<*mut bindings::page>()
                .add(count)
        };
        // SAFETY: The table has room for `2 * count` pointers, and null pointers are zeroes.
        unsafe { pages.write_bytes(0, count) };
        // SAFETY: `count` pointers were written, and the table is this clone's own.
        let slots = unsafe { core::slice::from_raw_parts_mut(pages, count) };
        if pool.alloc_bulk_raw(slots).is_err() {
            // SAFETY: The clone is not used again.
            unsafe { bindings::bio_put(clone.as_ptr()) };
            return Err(base);
        }

        for i in 0..count {
            // SAFETY: The page was not covered by a segment yet, see above.
            let page = unsafe { *pages.add(i) };
            let segment_len = PAGE_SIZE.min(len - i * PAGE_SIZE);
            // SAFETY: The table has room for `count` segments, and the page is the clone's.
            // CAST: At most `PAGE_SIZE`.
            unsafe { bindings::__bio_add_page(clone.as_ptr(), page, segment_len as u32, 0) };
        }
        *base.ptr_mut().clone_end_mut() = CloneEnd {
            free_pages: Some(free_pages::<S>),
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
        }
        // INVARIANT: The callers just made the clone so.
        Self {
            base: ManuallyDrop::new(base),
            clone,
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
            // and `self` is borrowed mutably, so there is no other walk.
            unsafe { SegmentsMut::new(table, iter) }
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
    /// `done` runs in any context, also in hard interrupts. A `device` of another target ends the
    /// bio with [`BlkError::IOERR`] at once, and so does a call from an interrupt or with interrupts
    /// disabled.
    ///
    /// Context: Process context; may sleep. C: `dm_submit_bio_remap()` in `drivers/md/dm.c`.
    pub fn submit(self, device: Device, sector: u64, done: fn(Bio<T>, BlkResult)) {
        let Some(bdev) = self.base.ptr().inner().devices().bdev(device) else {
            return;
        };
        if !may_submit() {
            return;
        }
        let mut this = ManuallyDrop::new(self);
        let clone = this.clone.as_ptr();
        // SAFETY: `this` is not used again, and not dropped.
        let mut base = unsafe { ManuallyDrop::take(&mut this.base) };
        base.ptr_mut().clone_end_mut().done = done;
        let base_bio = base.ptr().bio();

        // SAFETY: The clone is alive, and the device open as long as the target lives.
        unsafe { bindings::bio_set_dev(clone, bdev) };
        // SAFETY: The clone is alive, and nobody else's.
        unsafe {
            (*clone).bi_iter.bi_sector = sector;
            (*clone).bi_private = base.into_ptr().into_raw().cast();
            (*clone).bi_end_io = Some(Self::end_io);
        }
        // SAFETY: `base_bio` is device mapper's clone, which stays until `end_io()` gives it to
        // `done`; `accounts_remapped_io` is set for each target. Neither is used again here.
        unsafe { bindings::dm_submit_bio_remap(base_bio, clone) };
    }

    /// Takes a clone back.
    ///
    /// # Safety
    ///
    /// The block layer must call this for a clone that [`CloneBio::submit()`] submitted.
    unsafe extern "C" fn end_io(clone: *mut bindings::bio) {
        // SAFETY: `submit()` set `bi_private` so, and gave its pointer up for this call.
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
        done(Bio::new(base), result);
    }

    fn free_clone(&mut self) {
        // SAFETY: The callers do not use the clone again, and its pages are from the pool noted, by
        // the type invariants.
        unsafe { self.base.ptr().clone_end().free(self.clone) };
    }
}

impl<T: Target> Drop for CloneBio<T> {
    fn drop(&mut self) {
        self.free_clone();
        // SAFETY: `self` is not used again.
        drop(unsafe { ManuallyDrop::take(&mut self.base) });
    }
}
