// SPDX-License-Identifier: GPL-2.0

//! Pools of values in memory from `kmalloc()`.

use kernel::{
    bindings::{
        mempool_alloc_t,
        mempool_free_t, //
    },
    prelude::*, //
};

use core::{
    ffi::c_void,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr, //
};

use super::{
    memory::{
        Memory,
        RawElement, //
    },
    source::Source, //
};

use crate::{
    bindings,
    mm::gfp::Gfp, //
};

/// A source of `kmalloc()` memory for values of type `T`.
///
/// The size of `T` is in `1..=KMALLOC_MAX_SIZE`. C: `mempool_init_kmalloc_pool()` in
/// `include/linux/mempool.h`.
pub struct Kmalloc<T>(PhantomData<fn() -> T>);

impl<T> Kmalloc<T> {
    /// The checked size of a `T` in bytes.
    const SIZE: usize = {
        let size = size_of::<T>();
        assert!(size > 0, "values without a size need no memory");
        assert!(
            size <= bindings::KMALLOC_MAX_SIZE as usize,
            "values are too large for kmalloc()"
        );
        // `kmalloc()` aligns at least to the largest power of two that divides the size, see
        // `include/linux/slab.h`.
        assert!(
            align_of::<T>() <= 1 << size.trailing_zeros(),
            "kmalloc() does not align that much"
        );
        size
    };

    /// Creates the source.
    ///
    /// Context: Any context. Never sleeps.
    #[expect(
        clippy::new_without_default,
        reason = "there is nothing special about it"
    )]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Allocates memory for a `T`, for use in an [`Allocator`](super::Allocator) with its own
    /// policy.
    ///
    /// Context: Any context except NMI. May sleep if `gfp` allows it.
    #[inline]
    pub fn alloc(gfp: Gfp) -> Option<KBox<MaybeUninit<T>>> {
        // SAFETY: The call is `kmalloc()` of `SIZE` bytes.
        let memory = unsafe { bindings::mempool_kmalloc(gfp.as_raw(), Self::data()) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: The memory is from `kmalloc()`. `SIZE` checks its size and alignment for a `T`.
        Some(unsafe { KBox::from_raw(memory.cast()) })
    }

    /// Returns the size as the `pool_data` of the callbacks in C.
    #[inline]
    const fn data() -> *mut c_void {
        ptr::without_provenance_mut(Self::SIZE)
    }
}

// SAFETY:
// - `mempool_kmalloc()` in `mm/mempool.c` returns `kmalloc()` memory of `SIZE` bytes. `SIZE` checks
//   that it is aligned for a `T`.
// - `mempool_kfree()` is `kfree()`.
unsafe impl<T> Source for Kmalloc<T> {
    type Memory = RawElement<T>;

    const ALLOC: mempool_alloc_t = Some(bindings::mempool_kmalloc);
    const FREE: mempool_free_t = Some(bindings::mempool_kfree);

    unsafe fn data(_this: *const Self) -> *mut c_void {
        Self::data()
    }

    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<RawElement<T>>]) {
        for slot in slots {
            // SAFETY: The slot holds memory by the safety requirements.
            let memory = unsafe { slot.assume_init_read() }.into_raw();
            // SAFETY: It is from this source by the safety requirements, so from `kmalloc()`.
            unsafe { bindings::kfree(memory.as_ptr()) };
        }
    }
}
