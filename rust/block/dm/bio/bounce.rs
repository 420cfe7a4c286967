// SPDX-License-Identifier: GPL-2.0

//! Allocates and frees the bounce pages of a clone.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    num::NonZeroU32,
    ptr::NonNull,
    slice, //
};

use crate::{
    bindings,
    block::bio::BioSet,
    mm::{
        gfp::Gfp,
        mempool::{
            Mempool,
            Source, //
        },
        page::{
            is_compound,
            CompoundPage,
            Page, //
        }, //
    }, //
};

/// The source of a page pool that can also allocate compound pages, see [`Bio::bounce_compound()`].
///
/// [`Bio::bounce_compound()`]: crate::block::dm::Bio::bounce_compound
pub trait CompoundSource: Source<Memory = Page> {
    /// Allocates a compound page of at most `max_order`, as large as possible.
    ///
    /// May return [`None`]: the pool then provides pages.
    ///
    /// Context: Process context. May sleep. A long sleep delays other tasks, which may wait for
    /// memory that the caller holds.
    fn alloc_compound(&self, max_order: NonZeroU32) -> Option<CompoundPage>;

    /// Frees a compound page.
    ///
    /// Context: Any context. Must not sleep.
    fn free_compound(&self, compound: CompoundPage);
}

/// Frees the memory of a clone.
pub(super) type FreePages = unsafe fn(NonNull<bindings::bio>, *const ());

/// Allocates a bio with `len` bytes of its own memory, in compound pages from `compound` and in
/// pages from `pool`. Returns [`None`] if `len` is 0, or more than `pool` guarantees.
///
/// [`free_pages()`] or [`free_compound_pages()`] frees the memory with the same `pool`, depending
/// on `compound`.
///
/// # Safety
///
/// `set` and `pool` must live as long as the bio.
pub(super) unsafe fn alloc<S: Source<Memory = Page>>(
    set: &BioSet,
    pool: &Mempool<S>,
    opf: bindings::blk_opf_t,
    len: usize,
    compound: impl Fn(&S, NonZeroU32) -> Option<CompoundPage>,
) -> Option<NonNull<bindings::bio>> {
    let count = len.div_ceil(PAGE_SIZE);
    if count == 0 || count > pool.min_nr() || count > bindings::BIO_MAX_VECS as usize {
        return None;
    }

    // SAFETY:
    // - `set` is initialised, has tables of segments, and lives long enough, by this function's
    //   contract.
    // - `count` is at most `BIO_MAX_VECS`, checked above.
    //
    // CAST: As above.
    let clone = NonNull::new(unsafe {
        bindings::bio_alloc_bioset(
            core::ptr::null_mut(),
            count as u16,
            opf,
            Gfp::NOIO.as_raw(),
            set.as_raw(),
        )
    })?;

    let (mut left, mut max_order) = (len, CompoundPage::MAX_ORDER);
    // As `crypt_alloc_buffer()` in `drivers/md/dm-crypt.c`: an order that failed is not tried
    // again.
    while let Some(order) = max_order_of(left.div_ceil(PAGE_SIZE), max_order) {
        let Some(compound) = compound(pool.source(), order) else {
            break;
        };
        if compound.order() > order.get() {
            // The compound page is larger than the rest of the bio.
            break;
        }
        max_order = compound.order();
        let segment_len = compound.size().min(left);
        // SAFETY: The table has room: it has a segment for each page, and each segment has at least
        // a page.
        //
        // CAST: At most 1 MiB.
        unsafe {
            bindings::__bio_add_page(
                clone.as_ptr(),
                compound.into_raw().as_ptr(),
                segment_len as u32,
                0,
            )
        };
        left -= segment_len;
    }

    // SAFETY: The clone was allocated above, with `count` segments in its table.
    if left > 0 && unsafe { add_pages(clone, pool, count, left) }.is_err() {
        // Not reached: the number of pages was checked.
        //
        // SAFETY: All pages in the table came from `compound`, and dropping such compound pages is
        // allowed.
        unsafe { for_each_page(clone, |page| drop(CompoundPage::from_raw(page))) };
        // SAFETY: The clone is not used again.
        unsafe { bindings::bio_put(clone.as_ptr()) };
        return None;
    }
    Some(clone)
}

/// Returns the order of the largest compound page of at most `pages` pages and `max_order`, or
/// [`None`] for a single page.
fn max_order_of(pages: usize, max_order: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(pages.checked_ilog2()?.min(max_order))
}

/// Adds `len` bytes of pages from `pool` to a clone.
///
/// # Safety
///
/// The clone must own its table, which must have `room` segments. The free segments must be at
/// least the pages of `len`.
unsafe fn add_pages<S: Source<Memory = Page>>(
    clone: NonNull<bindings::bio>,
    pool: &Mempool<S>,
    room: usize,
    len: usize,
) -> Result {
    let count = len.div_ceil(PAGE_SIZE);
    // SAFETY: The clone is alive.
    let table = unsafe { (*clone.as_ptr()).bi_io_vec };

    // The array of pages is at the end of the table, whose head the segments fill: the last `count`
    // of its `2 * room` words. With `f` earlier segments, segment `i` added here ends at word
    // `2 * (f + i + 1)`, and page `i` is at `2 * room - count + i`. As `f + count <= room`, the
    // former is at most `2 * room - 2 * count + 2 * i + 2`. So segment `i` overwrites no page after
    // page `i`.
    //
    // SAFETY: The table has room for the array, by this function's contract.
    let pages = unsafe { table.cast::<*mut bindings::page>().add(2 * room - count) };
    // SAFETY: As above, and null pointers are zero bytes.
    unsafe { pages.write_bytes(0, count) };
    // SAFETY: `count` pointers were written, and only this clone uses the table.
    pool.alloc_bulk_raw(unsafe { slice::from_raw_parts_mut(pages, count) })?;

    for i in 0..count {
        // SAFETY: No segment has overwritten the page yet, see above.
        let page = unsafe { *pages.add(i) };
        let segment_len = PAGE_SIZE.min(len - i * PAGE_SIZE);
        // SAFETY: The table has room for the segment, and the clone owns the page.
        // CAST: At most `PAGE_SIZE`.
        unsafe { bindings::__bio_add_page(clone.as_ptr(), page, segment_len as u32, 0) };
    }
    Ok(())
}

/// Calls `func` with the first page of each segment.
///
/// # Safety
///
/// `clone` must be alive and own its table.
unsafe fn for_each_page(
    clone: NonNull<bindings::bio>,
    mut func: impl FnMut(NonNull<bindings::page>),
) {
    // SAFETY: `clone` is alive by this function's contract.
    let (table, count) = unsafe { ((*clone.as_ptr()).bi_io_vec, (*clone.as_ptr()).bi_vcnt) };

    for i in 0..usize::from(count) {
        // SAFETY: The table has `count` segments.
        if let Some(page) = NonNull::new(unsafe { (*table.add(i)).bv_page }) {
            func(page);
        }
    }
}

/// Frees the pages of a clone to its pool.
///
/// # Safety
///
/// `clone` must be a bio whose segments are not used again. Each segment must be one page from
/// `pool`, a [`Mempool<S>`].
pub(super) unsafe fn free_pages<S: Source<Memory = Page> + 'static>(
    clone: NonNull<bindings::bio>,
    pool: *const (),
) {
    // SAFETY: By this function's contract.
    unsafe {
        free(clone, pool.cast::<Mempool<S>>(), |_, compound| {
            drop(compound)
        })
    };
}

/// Frees the compound pages of a clone to the source of its pool, and its pages to the pool.
///
/// # Safety
///
/// As for [`free_pages()`], but segments may also be compound pages from the source of `pool`.
pub(super) unsafe fn free_compound_pages<S: CompoundSource + 'static>(
    clone: NonNull<bindings::bio>,
    pool: *const (),
) {
    // SAFETY: By this function's contract.
    unsafe { free(clone, pool.cast::<Mempool<S>>(), S::free_compound) };
}

/// Frees the memory of a clone.
///
/// # Safety
///
/// As for [`free_pages()`], but segments may also be compound pages that `free_compound` accepts.
unsafe fn free<S: Source<Memory = Page>>(
    clone: NonNull<bindings::bio>,
    pool: *const Mempool<S>,
    free_compound: impl Fn(&S, CompoundPage),
) {
    // SAFETY: The pool is alive, by this function's contract.
    let pool = unsafe { &*pool };
    // SAFETY: `clone` is alive by this function's contract.
    let pages = unsafe { (*clone.as_ptr()).bi_io_vec }.cast::<*mut bindings::page>();
    let mut count = 0;

    // The pages are collected at the head of the table. Entry `n` ends at word `n + 1`, and the
    // segment after the `n`th begins at word `2 * (n + 1)`. As there are at most as many pages as
    // segments, no unread segment is overwritten.
    let sort = |page: NonNull<bindings::page>| {
        // SAFETY: The page is from a `Page` or from a `CompoundPage`, by this function's contract.
        if unsafe { is_compound(page.as_ptr()) } {
            // SAFETY: The page is from a `CompoundPage`, and unused, by this function's contract.
            free_compound(pool.source(), unsafe { CompoundPage::from_raw(page) });
        } else {
            // SAFETY: The table has room for twice as many pages as segments.
            unsafe { pages.add(count).write(page.as_ptr()) };
            count += 1;
        }
    };
    // SAFETY: By this function's contract.
    unsafe { for_each_page(clone, sort) };

    if count > 0 {
        // SAFETY: `count` pages were written, and only this clone uses the table.
        let pages = unsafe { slice::from_raw_parts_mut(pages, count) };
        // SAFETY: The pages came from the pool and are unused, by this function's contract.
        unsafe { pool.free_bulk_raw(pages) };
    }
}
