// SPDX-License-Identifier: GPL-2.0

//! Pools of pages.

use kernel::bindings::{
    mempool_alloc_t,
    mempool_free_t, //
};

use core::{
    ffi::c_void,
    mem::MaybeUninit,
    ptr,
    slice, //
};

use super::{
    memory::empty_slots,
    source::Source, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        page::{
            self,
            Page, //
        }, //
    }, //
};

/// A source of blocks of `1 << ORDER` pages from the page allocator.
///
/// Unlike blocks from [`Page::alloc`], these are not compound pages. C: `mempool_init_page_pool()`
/// in `include/linux/mempool.h`.
#[derive(Default)]
pub struct Pages<const ORDER: u32 = 0>;

// SAFETY:
// - `mempool_alloc_pages()` in `mm/mempool.c` returns a block of order `ORDER` with one reference.
//   The use of `SIZE` checks `ORDER`.
// - `mempool_free_pages()` frees such a block.
unsafe impl<const ORDER: u32> Source for Pages<ORDER> {
    type Memory = Page<ORDER>;

    const ALLOC: mempool_alloc_t = Some(bindings::mempool_alloc_pages);
    const FREE: mempool_free_t = Some(bindings::mempool_free_pages);

    unsafe fn data(_this: *const Self) -> *mut c_void {
        const { assert!(Page::<ORDER>::SIZE > 0) };

        // CAST: From 32 to 64 bits.
        ptr::without_provenance_mut(ORDER as usize)
    }

    #[inline]
    unsafe fn alloc_bulk(&self, gfp: Gfp, slots: &mut [MaybeUninit<Page<ORDER>>]) -> usize {
        // The page allocator has a bulk function for order 0 only.
        if ORDER != 0 {
            return 0;
        }
        let slots = empty_slots(slots);
        // SAFETY: The type is the same, as `ORDER` is 0.
        let slots = unsafe { slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) };
        page::alloc_bulk(gfp, slots)
    }

    #[inline]
    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<Page<ORDER>>]) {
        for slot in slots {
            // SAFETY: The slot holds memory by the safety requirements.
            drop(unsafe { slot.assume_init_read() });
        }
    }
}
