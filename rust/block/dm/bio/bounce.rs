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
    block::bio::{
        BioSet,
        Op, //
    },
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
    if Op::from_opf(opf) == Op::Write {
        // SAFETY: The clone was allocated above, with at least one segment, and owns its pages.
        unsafe { clear_tail(clone) };
    }
    Some(clone)
}

/// Clears the bytes between the end of a clone and the end of its last page.
///
/// A driver may store a whole page, as `zram_write_page()` in `drivers/block/zram/zram_drv.c` does.
/// It gets a part of a page if a device below was replaced by one with larger blocks: device mapper
/// does not update the limits of the devices above.
///
/// # Safety
///
/// `clone` must be alive, not shared, and own its pages. It must have a segment, and each of them
/// must begin at a page.
unsafe fn clear_tail(clone: NonNull<bindings::bio>) {
    // SAFETY: `clone` is alive by this function's contract.
    let (table, count) = unsafe { ((*clone.as_ptr()).bi_io_vec, (*clone.as_ptr()).bi_vcnt) };
    // SAFETY: The table has `count` segments, at least one.
    let last = unsafe { *table.add(usize::from(count).saturating_sub(1)) };
    // CAST: At most 1 MiB.
    let len = last.bv_len as usize;
    let used = len % PAGE_SIZE;
    if used > 0 {
        // The pages of a segment are adjacent in the memory map.
        let page = last.bv_page.wrapping_add(len / PAGE_SIZE);
        // SAFETY: The clone owns the page. All memory is low memory, so `page_address()` only
        // computes the address.
        let bytes: *mut u8 = unsafe { bindings::page_address(page) }.cast();
        // SAFETY: As above. The page has `PAGE_SIZE` bytes, and nothing else accesses them yet.
        unsafe { bytes.add(used).write_bytes(0, PAGE_SIZE - used) };
    }
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

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_bounce)]
mod tests {
    use super::*;

    use core::num::NonZeroU16;

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    use crate::mm::mempool::Allocator;

    const MAX_PAGES: usize = bindings::BIO_MAX_VECS as usize;

    /// Counts that tests share with their source of pages.
    struct Counts {
        pages: Atomic<usize>,
        compounds: Atomic<usize>,
        /// The orders that were asked for, the last one in the lowest four bits.
        orders: Atomic<usize>,
        /// The largest order that is given, 0 for none.
        max_order: Atomic<u32>,
    }

    struct Counted(Arc<Counts>);

    impl Allocator for Counted {
        type Memory = Page;

        fn alloc(&self, gfp: Gfp) -> Option<Page> {
            let mut page = Page::alloc(gfp).ok()?;
            page.fill(0xee);
            self.0.pages.add(1, Relaxed);
            Some(page)
        }

        fn free(&self, page: Page) {
            self.0.pages.fetch_sub(1, Relaxed);
            drop(page);
        }
    }

    impl CompoundSource for Counted {
        fn alloc_compound(&self, max_order: NonZeroU32) -> Option<CompoundPage> {
            let orders = self.0.orders.load(Relaxed);
            // CAST: At most 10.
            self.0
                .orders
                .store(orders << 4 | max_order.get() as usize, Relaxed);
            let order = max_order.get().min(self.0.max_order.load(Relaxed));
            let compound = CompoundPage::alloc(Gfp::KERNEL, NonZeroU32::new(order)?).ok()?;
            self.0.compounds.add(1, Relaxed);
            Some(compound)
        }

        fn free_compound(&self, compound: CompoundPage) {
            self.0.compounds.fetch_sub(1, Relaxed);
            drop(compound);
        }
    }

    /// A set of bios, a pool of pages, and the counts of its source.
    struct Memory {
        set: Pin<KBox<BioSet>>,
        pool: Pin<KBox<Mempool<Counted>>>,
        counts: Arc<Counts>,
    }

    impl Memory {
        fn new(min_nr: usize) -> Result<Self> {
            let counts = Counts {
                pages: Atomic::new(0),
                compounds: Atomic::new(0),
                orders: Atomic::new(0),
                max_order: Atomic::new(0),
            };
            let counts = Arc::new(counts, GFP_KERNEL)?;
            let source = Counted(counts.clone());
            Ok(Self {
                set: KBox::pin_init(BioSet::new(NonZeroU16::MIN), GFP_KERNEL)?,
                pool: KBox::pin_init(Mempool::new(min_nr, source), GFP_KERNEL)?,
                counts,
            })
        }

        /// Allocates and frees a bio of `len` bytes. Returns the number of its segments and its
        /// length, or [`None`] if it is refused.
        fn use_bio(&self, len: usize) -> Option<(u16, u32)> {
            let (set, pool) = (&*self.set, &*self.pool);
            self.counts.orders.store(0, Relaxed);
            // SAFETY: The bio is freed below, before the set and the pool are.
            let bio = unsafe {
                alloc(
                    set,
                    pool,
                    bindings::req_op_REQ_OP_WRITE,
                    len,
                    Counted::alloc_compound,
                )
            }?;
            // SAFETY: The bio is alive.
            let (count, size) =
                unsafe { ((*bio.as_ptr()).bi_vcnt, (*bio.as_ptr()).bi_iter.bi_size) };
            // SAFETY: The bio came from `alloc()` with that pool and that source, and is not used
            // again.
            unsafe {
                free_compound_pages::<Counted>(bio, core::ptr::from_ref(pool).cast());
                bindings::bio_put(bio.as_ptr());
            }
            Some((count, size))
        }

        /// Returns the allocated pages and compound pages.
        fn allocated(&self) -> (usize, usize) {
            (
                self.counts.pages.load(Relaxed),
                self.counts.compounds.load(Relaxed),
            )
        }
    }

    /// A driver that stores whole pages would store what the pool has left there.
    #[test]
    fn bytes_after_a_write_are_zero() -> Result {
        let (read, write) = (
            bindings::req_op_REQ_OP_READ,
            bindings::req_op_REQ_OP_WRITE | bindings::REQ_FUA,
        );

        for (opf, len, cleared) in [
            (write, 512, PAGE_SIZE - 512),
            (write, PAGE_SIZE, 0),
            (write, PAGE_SIZE + 3584, 512),
            (read, 512, 0),
        ] {
            let memory = Memory::new(2)?;
            let (set, pool) = (&*memory.set, &*memory.pool);
            // SAFETY: The bio is freed below, before the set and the pool are.
            let bio = unsafe { alloc(set, pool, opf, len, |_, _| None) }.ok_or(ENOMEM)?;
            // SAFETY: The bio has a segment for each page.
            let last = unsafe { *(*bio.as_ptr()).bi_io_vec.add((len - 1) / PAGE_SIZE) };
            // SAFETY: The bio owns the page, and nothing writes to it.
            let bytes = unsafe {
                let start = bindings::page_address(last.bv_page).cast::<u8>();
                slice::from_raw_parts(start, PAGE_SIZE)
            };
            let (data, tail) = bytes.split_at(PAGE_SIZE - cleared);
            let is_cleared = tail.iter().all(|&byte| byte == 0);
            let is_kept = data.iter().all(|&byte| byte == 0xee);
            // SAFETY: The bio came from `alloc()` with that pool, and is not used again.
            unsafe {
                free_pages::<Counted>(bio, core::ptr::from_ref(pool).cast());
                bindings::bio_put(bio.as_ptr());
            }
            assert!(is_cleared && is_kept);
        }
        Ok(())
    }

    /// The write ends in the last page of a compound page.
    #[test]
    fn bytes_after_a_write_to_a_compound_page_are_zero() -> Result {
        const LEN: usize = 3 * PAGE_SIZE + 512;
        let memory = Memory::new(4)?;
        let (set, pool) = (&*memory.set, &*memory.pool);
        memory.counts.max_order.store(2, Relaxed);
        let filled = |source: &Counted, order| {
            let page = source.alloc_compound(order)?.into_raw();
            // SAFETY: The compound page has four pages, and nothing else uses it.
            unsafe {
                let start = bindings::page_address(page.as_ptr()).cast::<u8>();
                start.write_bytes(0xee, 4 * PAGE_SIZE);
                Some(CompoundPage::from_raw(page))
            }
        };
        // SAFETY: The bio is freed below, before the set and the pool are.
        let bio = unsafe { alloc(set, pool, bindings::req_op_REQ_OP_WRITE, LEN, filled) };
        let bio = bio.ok_or(ENOMEM)?;
        // SAFETY: The bio has a segment, and owns its pages. Nothing writes to them.
        let (segments, bytes) = unsafe {
            let start = bindings::page_address((*(*bio.as_ptr()).bi_io_vec).bv_page);
            (
                (*bio.as_ptr()).bi_vcnt,
                slice::from_raw_parts(start.cast::<u8>(), 4 * PAGE_SIZE),
            )
        };
        let (data, tail) = bytes.split_at(LEN);
        let is_cleared = tail.iter().all(|&byte| byte == 0);
        let is_kept = data.iter().all(|&byte| byte == 0xee);
        // SAFETY: The bio came from `alloc()` with that pool and that source, and is not used
        // again.
        unsafe {
            free_compound_pages::<Counted>(bio, core::ptr::from_ref(pool).cast());
            bindings::bio_put(bio.as_ptr());
        }
        assert_eq!(segments, 1);
        assert!(is_cleared && is_kept);
        Ok(())
    }

    #[test]
    fn a_bio_has_the_pages_that_the_pool_guarantees() -> Result {
        // Guaranteed pages, bytes, pages of the bio.
        const ROWS: [(usize, usize, Option<u16>); 9] = [
            (4, 0, None),
            (4, 1, Some(1)),
            (4, PAGE_SIZE + 1, Some(2)),
            (4, 4 * PAGE_SIZE, Some(4)),
            (4, 4 * PAGE_SIZE + 1, None),
            (MAX_PAGES, 16 * PAGE_SIZE, Some(16)),
            (MAX_PAGES, MAX_PAGES * PAGE_SIZE, Some(256)),
            (MAX_PAGES, MAX_PAGES * PAGE_SIZE + 1, None),
            (MAX_PAGES + 1, MAX_PAGES * PAGE_SIZE + 1, None),
        ];

        for (min_nr, len, expected) in ROWS {
            let memory = Memory::new(min_nr)?;
            // CAST: At most 1 MiB.
            let expected = expected.map(|count| (count, len as u32));
            assert_eq!(memory.use_bio(len), expected);
            // Only the reserve is left.
            assert_eq!(memory.allocated(), (min_nr, 0));
        }
        Ok(())
    }

    #[test]
    fn compound_pages_are_as_large_as_possible() -> Result {
        // Largest order of the source, pages of the bio, segments, orders that were asked for.
        const ROWS: [(u32, usize, u16, usize); 7] = [
            (0, 1, 1, 0),
            (0, 16, 16, 0x4),
            (4, 16, 1, 0x4),
            // Eight pages, four pages, two pages, one page.
            (9, 15, 4, 0x321),
            (2, 15, 5, 0x3221),
            (1, 7, 4, 0x211),
            (3, 17, 3, 0x43),
        ];

        for (max_order, pages, segments, orders) in ROWS {
            let memory = Memory::new(MAX_PAGES)?;
            memory.counts.max_order.store(max_order, Relaxed);
            let len = pages * PAGE_SIZE;
            // CAST: At most 1 MiB.
            assert_eq!(memory.use_bio(len), Some((segments, len as u32)));
            assert_eq!(memory.counts.orders.load(Relaxed), orders);
            assert_eq!(memory.allocated(), (MAX_PAGES, 0));
        }
        Ok(())
    }
}
