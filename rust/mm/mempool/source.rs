// SPDX-License-Identifier: GPL-2.0

//! The allocation callbacks of a pool.

use core::{
    ffi::c_void,
    mem::MaybeUninit, //
};

use kernel::bindings::{
    mempool_alloc_t,
    mempool_free_t, //
};

use super::memory::Memory;

use crate::mm::gfp::Gfp;

/// The source of the memory of a [`Mempool`](super::Mempool).
///
/// Sources are [`Kmalloc`], [`Slab`], [`Pages`] and every [`Allocator`]. The callbacks of the first
/// three are the kernel's own, except those of blocks of several pages, so C can poison their
/// reserve.
///
/// # Safety
///
/// While the source lives, with `data` from [`data`](Self::data):
///
/// - [`ALLOC`](Self::ALLOC) must return `NULL` or memory that is valid for [`Memory::from_raw`].
/// - [`FREE`](Self::FREE) must be callable once with that memory if the memory is no longer used.
/// - [`alloc_bulk`](Self::alloc_bulk) must return at most the number of slots that it filled.
///
/// [`Allocator`]: super::Allocator
/// [`Kmalloc`]: super::Kmalloc
/// [`Pages`]: super::Pages
/// [`Slab`]: super::Slab
pub unsafe trait Source: Send + Sync + Sized {
    /// The memory of an element.
    type Memory: Memory;

    /// The `mempool_alloc_t` callback.
    const ALLOC: mempool_alloc_t;

    /// The `mempool_free_t` callback.
    const FREE: mempool_free_t;

    /// Returns the `pool_data` argument of [`ALLOC`](Self::ALLOC) and [`FREE`](Self::FREE).
    ///
    /// # Safety
    ///
    /// `this` must point to an initialised source, which must not move afterwards.
    unsafe fn data(this: *const Self) -> *mut c_void;

    /// Puts memory into `slots`, starting with the first slot. The old contents are not read.
    ///
    /// Returns the number `n` of filled slots: the first `n` slots hold memory from this source,
    /// which the caller owns. The pool allocates the remaining elements one by one. The default
    /// returns 0.
    ///
    /// Context: Process context. May sleep if `gfp` allows it.
    ///
    /// # Safety
    ///
    /// The caller must report the memory that it then owns by [`taken`](Self::taken).
    #[inline]
    unsafe fn alloc_bulk(&self, gfp: Gfp, slots: &mut [MaybeUninit<Self::Memory>]) -> usize {
        let _ = (gfp, slots);
        0
    }

    /// Frees the memory in `slots`.
    ///
    /// Context: As [`FREE`](Self::FREE).
    ///
    /// # Safety
    ///
    /// All of `slots` must hold memory from this source, and the caller must give up its ownership.
    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<Self::Memory>]);

    /// Records that the pool has handed out `count` elements.
    ///
    /// Context: The caller's context. Must not sleep.
    ///
    /// # Safety
    ///
    /// The caller must own the elements, which are from this source, and must record them only
    /// once.
    #[inline]
    unsafe fn taken(&self, count: usize) {
        let _ = count;
    }

    /// Records that `count` elements return to the pool.
    ///
    /// Context: Any context except NMI. Must not sleep.
    ///
    /// # Safety
    ///
    /// The caller must own the elements, recorded by [`taken`](Self::taken), and must return them
    /// next.
    #[inline]
    unsafe fn returned(&self, count: usize) {
        let _ = count;
    }
}
