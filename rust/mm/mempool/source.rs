// SPDX-License-Identifier: GPL-2.0

//! How C gets the memory of a pool.

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

/// Where the memory of a [`Mempool`](super::Mempool) is from.
///
/// There are [`Kmalloc`], [`Slab`] and [`Pages`], whose callbacks are the kernel's own, so that C
/// knows how to poison what is in the reserve, and every [`Allocator`].
///
/// # Safety
///
/// While the source lives, with `data` from [`data`](Self::data):
///
/// - [`ALLOC`](Self::ALLOC) must return `NULL`, or what [`Memory::from_raw`] takes.
/// - [`FREE`](Self::FREE) must be fit to be called once with that, if it is no longer used.
/// - [`alloc_bulk`](Self::alloc_bulk) must return no more than what it put into `slots`.
///
/// [`Allocator`]: super::Allocator
/// [`Kmalloc`]: super::Kmalloc
/// [`Pages`]: super::Pages
/// [`Slab`]: super::Slab
pub unsafe trait Source: Send + Sync + Sized {
    /// What the pool consists of.
    type Memory: Memory;

    /// What C allocates by.
    const ALLOC: mempool_alloc_t;

    /// What C frees by.
    const FREE: mempool_free_t;

    /// Returns what C passes to [`ALLOC`](Self::ALLOC) and [`FREE`](Self::FREE).
    ///
    /// # Safety
    ///
    /// `this` must point to a source that is initialised, and will stay where it is.
    unsafe fn data(this: *const Self) -> *mut c_void;

    /// Puts memory into `slots`, whatever is there, from the first on.
    ///
    /// Returns how many of them, from the first on, hold memory from this source, which the caller
    /// owns. The pool gets the rest one by one. The default leaves all of them to that.
    ///
    /// Context: process. Must not sleep unless `gfp` allows it.
    ///
    /// # Safety
    ///
    /// The caller must note what it owns then by [`taken`](Self::taken).
    #[inline]
    unsafe fn alloc_bulk(&self, gfp: Gfp, slots: &mut [MaybeUninit<Self::Memory>]) -> usize {
        let _ = (gfp, slots);
        0
    }

    /// Frees the memory in `slots`.
    ///
    /// Context: that of [`FREE`](Self::FREE).
    ///
    /// # Safety
    ///
    /// All of `slots` must hold memory from this source, which the caller gives away.
    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<Self::Memory>]);

    /// Notes that the pool gave `count` elements to somebody.
    ///
    /// Context: that of the pool's caller. Must not sleep.
    ///
    /// # Safety
    ///
    /// The caller must own them, from this source, and this be the only note of that.
    #[inline]
    unsafe fn taken(&self, count: usize) {
        let _ = count;
    }

    /// Notes that somebody gives `count` elements back.
    ///
    /// Context: any but NMI. Must not sleep.
    ///
    /// # Safety
    ///
    /// The caller must own them, noted as [`taken`](Self::taken), and give them back next.
    #[inline]
    unsafe fn returned(&self, count: usize) {
        let _ = count;
    }
}
