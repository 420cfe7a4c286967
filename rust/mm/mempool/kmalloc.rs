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
        Slot, //
    },
    source::Source, //
};

use crate::{
    bindings,
    mm::gfp::Gfp, //
};

/// Memory for values of `T` from `kmalloc()`.
///
/// `T` may have any size up to `KMALLOC_MAX_SIZE` but 0. C: `mempool_init_kmalloc_pool()` in
/// `include/linux/mempool.h`.
pub struct Kmalloc<T>(PhantomData<fn() -> T>);

impl<T> Kmalloc<T> {
    /// The size of a `T` in bytes, checked.
    const SIZE: usize = {
        let size = size_of::<T>();
        assert!(size > 0, "values without a size need no memory");
        assert!(
            size <= bindings::KMALLOC_MAX_SIZE as usize,
            "values are too large for kmalloc()"
        );
        // The largest power of two that divides the size is what `kmalloc()` aligns to at least,
        // see `include/linux/slab.h`.
        assert!(
            align_of::<T>() <= 1 << size.trailing_zeros(),
            "kmalloc() does not align that much"
        );
        size
    };

    /// Creates the source.
    ///
    /// Context: any.
    #[expect(
        clippy::new_without_default,
        reason = "there is nothing special about it"
    )]
    pub const fn new() -> Self {
        Self(PhantomData)
    }

    /// Returns memory for an [`Allocator`](super::Allocator) that has its own idea of how much.
    ///
    /// Context: any but NMI. Sleeps if `gfp` allows it.
    #[inline]
    pub fn alloc(gfp: Gfp) -> Option<KBox<MaybeUninit<T>>> {
        // SAFETY: It is `kmalloc()` of `SIZE` bytes.
        let memory = unsafe { bindings::mempool_kmalloc(gfp.as_raw(), Self::data()) };
        if memory.is_null() {
            return None;
        }
        // SAFETY: It is from `kmalloc()`, as large as a `T` and aligned for one, see `SIZE`.
        Some(unsafe { KBox::from_raw(memory.cast()) })
    }

    /// Returns the size as C takes it.
    #[inline]
    const fn data() -> *mut c_void {
        ptr::without_provenance_mut(Self::SIZE)
    }
}

// SAFETY:
// - `mempool_kmalloc()` in `mm/mempool.c` returns `kmalloc()`ed memory of `SIZE` bytes, which is
//   aligned for a `T`, see there.
// - `mempool_kfree()` is `kfree()`.
unsafe impl<T> Source for Kmalloc<T> {
    type Memory = Slot<T>;

    const ALLOC: mempool_alloc_t = Some(bindings::mempool_kmalloc);
    const FREE: mempool_free_t = Some(bindings::mempool_kfree);

    unsafe fn data(_this: *const Self) -> *mut c_void {
        Self::data()
    }

    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<Slot<T>>]) {
        for slot in slots {
            // SAFETY: It holds memory by the safety requirements.
            let memory = unsafe { slot.assume_init_read() }.into_raw();
            // SAFETY: It is from this source by the safety requirements, and so from `kmalloc()`.
            unsafe { bindings::kfree(memory.as_ptr()) };
        }
    }
}
