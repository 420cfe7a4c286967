// SPDX-License-Identifier: GPL-2.0

//! Pools of pages.

use kernel::bindings::{
    gfp_t,
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
/// Blocks with an order above 0 are compound pages, as those from [`Page::alloc`], and unlike those
/// of C. `mempool_debug` and KASAN do not check the reserve of such a pool.
/// C: `mempool_init_page_pool()` in `include/linux/mempool.h`.
#[derive(Default)]
pub struct Pages<const ORDER: u32 = 0>;

// SAFETY:
// - `mempool_alloc_pages()` in `mm/mempool.c` returns a block of order `ORDER` with one reference.
//   The use of `SIZE` checks `ORDER`. `alloc_compound()` makes a block of more than a page a
//   compound page.
// - `mempool_free_pages()` frees such a block.
unsafe impl<const ORDER: u32> Source for Pages<ORDER> {
    type Memory = Page<ORDER>;

    const ALLOC: mempool_alloc_t = if ORDER == 0 {
        Some(bindings::mempool_alloc_pages)
    } else {
        Some(alloc_compound)
    };
    // C poisons elements by its function of allocation, and checks them by that of freeing.
    const FREE: mempool_free_t = if ORDER == 0 {
        Some(bindings::mempool_free_pages)
    } else {
        Some(free_compound)
    };

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

/// Allocates a compound page.
///
/// # Safety
///
/// `order` must be the order, from 1 to `MAX_PAGE_ORDER`.
unsafe extern "C" fn alloc_compound(gfp: gfp_t, order: *mut c_void) -> *mut c_void {
    let gfp = Gfp::from_raw(gfp) | Gfp::COMP;
    // SAFETY: By the safety requirements.
    unsafe { bindings::mempool_alloc_pages(gfp.as_raw(), order) }
}

/// Frees a compound page.
///
/// # Safety
///
/// `page` must be from `alloc_compound()` with this order, or an equivalent page. The caller must
/// own its only reference, and gives it up.
unsafe extern "C" fn free_compound(page: *mut c_void, order: *mut c_void) {
    // SAFETY: By the safety requirements.
    unsafe { bindings::mempool_free_pages(page, order) }
}
