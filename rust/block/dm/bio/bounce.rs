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
            is_block,
            Block,
            Page, //
        }, //
    }, //
};

/// The source of a page pool that can also allocate blocks of pages, see [`Bio::bounce_blocks()`].
///
/// [`Bio::bounce_blocks()`]: crate::block::dm::Bio::bounce_blocks
pub trait Blocks: Source<Memory = Page> {
    /// Allocates a block of at most `max_order`, as large as possible.
    ///
    /// May return [`None`]: the pool then provides pages.
    ///
    /// Context: Process context. Must not sleep for long, as other tasks may wait for memory that
    /// the caller holds.
    fn alloc_block(&self, max_order: NonZeroU32) -> Option<Block>;

    /// Frees a block.
    ///
    /// Context: Any context. Must not sleep.
    fn free_block(&self, block: Block);
}

/// Frees the memory of a clone.
pub(super) type FreePages = unsafe fn(NonNull<bindings::bio>, *const ());

/// Allocates a bio with `len` bytes of its own memory, in blocks from `block` and in pages from
/// `pool`. Returns [`None`] if `len` is 0, or more than `pool` guarantees.
///
/// [`free_pages()`] or [`free_blocks()`] frees the memory with the same `pool`, depending on
/// `block`.
///
/// # Safety
///
/// `set` and `pool` must live as long as the bio.
pub(super) unsafe fn alloc<S: Source<Memory = Page>>(
    set: &BioSet,
    pool: &Mempool<S>,
    opf: bindings::blk_opf_t,
    len: usize,
    block: impl Fn(&S, NonZeroU32) -> Option<Block>,
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

    let (mut left, mut max_order) = (len, Block::MAX_ORDER);
    // As `crypt_alloc_buffer()` in `drivers/md/dm-crypt.c`: an order that failed is not tried
    // again.
    while let Some(order) = max_order_of(left.div_ceil(PAGE_SIZE), max_order) {
        let Some(block) = block(pool.source(), order) else {
            break;
        };
        if block.order() > order.get() {
            // The block is larger than the rest of the bio.
            break;
        }
        max_order = block.order();
        let segment_len = block.size().min(left);
        // SAFETY: The table has room: it has a segment for each page, and each segment has at least
        // a page.
        //
        // CAST: At most 1 MiB.
        unsafe {
            bindings::__bio_add_page(
                clone.as_ptr(),
                block.into_raw().as_ptr(),
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
        // SAFETY: All pages in the table came from `block`, and dropping such blocks is allowed.
        unsafe { for_each_page(clone, |page| drop(Block::from_raw(page))) };
        // SAFETY: The clone is not used again.
        unsafe { bindings::bio_put(clone.as_ptr()) };
        return None;
    }
    Some(clone)
}

/// Returns the order of the largest block of at most `pages` pages and `max_order`, or [`None`] for
/// a single page.
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
    unsafe { free(clone, pool.cast::<Mempool<S>>(), |_, block| drop(block)) };
}

/// Frees the blocks of a clone to the source of its pool, and its pages to the pool.
///
/// # Safety
///
/// As for [`free_pages()`], but segments may also be blocks from the source of `pool`.
pub(super) unsafe fn free_blocks<S: Blocks + 'static>(
    clone: NonNull<bindings::bio>,
    pool: *const (),
) {
    // SAFETY: By this function's contract.
    unsafe { free(clone, pool.cast::<Mempool<S>>(), S::free_block) };
}

/// Frees the memory of a clone.
///
/// # Safety
///
/// As for [`free_pages()`], but segments may also be blocks that `free_block` accepts.
unsafe fn free<S: Source<Memory = Page>>(
    clone: NonNull<bindings::bio>,
    pool: *const Mempool<S>,
    free_block: impl Fn(&S, Block),
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
        // SAFETY: The page is from a `Page` or from a `Block`, by this function's contract.
        if unsafe { is_block(page.as_ptr()) } {
            // SAFETY: The page is from a `Block`, and unused, by this function's contract.
            free_block(pool.source(), unsafe { Block::from_raw(page) });
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
