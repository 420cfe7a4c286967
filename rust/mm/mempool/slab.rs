// SPDX-License-Identifier: GPL-2.0

//! Pools of values in memory from a slab cache.

use kernel::bindings::{
    mempool_alloc_t,
    mempool_free_t, //
};

use core::{
    ffi::c_void,
    mem::MaybeUninit, //
};

use super::{
    memory::RawElement,
    source::Source, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        slab::CacheRef, //
    }, //
};

/// A source of objects of a slab [`Cache`](crate::mm::slab::Cache).
///
/// `R` is the cache, or an `Arc` of or a reference to a cache that is shared with other users. The
/// cache of a forgotten pool is never destroyed, because the reserve keeps its objects. C:
/// `mempool_init_slab_pool()` in `include/linux/mempool.h`.
///
/// # Invariants
///
/// The cache counts the source as one allocated object.
pub struct Slab<R: CacheRef>(R);

impl<R: CacheRef> Slab<R> {
    /// Creates the source.
    ///
    /// Context: Any context. Never sleeps.
    pub fn new(cache: R) -> Self {
        cache.get_ref().taken(1);
        // INVARIANT: Counted above.
        Self(cache)
    }

    /// Returns the cache.
    ///
    /// Context: Any context. Never sleeps.
    pub fn cache(&self) -> &crate::mm::slab::Cache<R::Value> {
        self.0.get_ref()
    }
}

impl<R: CacheRef> Drop for Slab<R> {
    fn drop(&mut self) {
        // The count stood for the reserve of the pool, which is freed by now.
        self.cache().returned(1);
    }
}

// SAFETY:
// - `mempool_alloc_slab()` in `mm/mempool.c` returns an object of the cache, which is memory for a
//   `Value` by the type invariants of `Cache`.
// - `mempool_free_slab()` frees the object to the cache.
unsafe impl<R: CacheRef + Send + Sync> Source for Slab<R> {
    type Memory = RawElement<R::Value>;

    const ALLOC: mempool_alloc_t = Some(bindings::mempool_alloc_slab);
    const FREE: mempool_free_t = Some(bindings::mempool_free_slab);

    unsafe fn data(this: *const Self) -> *mut c_void {
        // SAFETY: `this` is initialised by the safety requirements.
        unsafe { &*this }.cache().as_raw().cast()
    }

    #[inline]
    unsafe fn alloc_bulk(&self, gfp: Gfp, slots: &mut [MaybeUninit<Self::Memory>]) -> usize {
        // SAFETY:
        // - The cache exists by its type invariants.
        // - `slots` is valid for writes of `slots.len()` pointers, by the contract of `Memory`.
        let all = unsafe {
            bindings::kmem_cache_alloc_bulk_noprof(
                self.cache().as_raw(),
                gfp.as_raw(),
                slots.len(),
                slots.as_mut_ptr().cast(),
            )
        };
        // On failure, C has freed the objects that it allocated.
        if all {
            slots.len()
        } else {
            0
        }
    }

    #[inline]
    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<Self::Memory>]) {
        if slots.is_empty() {
            return;
        }
        // SAFETY: The slots are objects of this cache by the safety requirements, and are not used
        // again. They have the layout of pointers by the contract of `Memory`.
        unsafe {
            bindings::kmem_cache_free_bulk(
                self.cache().as_raw(),
                slots.len(),
                slots.as_mut_ptr().cast(),
            )
        };
    }

    #[inline]
    unsafe fn taken(&self, count: usize) {
        self.cache().taken(count);
    }

    #[inline]
    unsafe fn returned(&self, count: usize) {
        self.cache().returned(count);
    }
}
