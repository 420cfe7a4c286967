// SPDX-License-Identifier: GPL-2.0

//! The memory of unused pool elements.

use kernel::prelude::*;

use core::{
    ffi::c_void,
    mem::{
        self,
        MaybeUninit, //
    },
    ptr::NonNull,
    slice, //
};

use crate::mm::page::Page;

/// Owned memory that a [`Mempool`](super::Mempool) can keep.
///
/// # Safety
///
/// - `Option<Self>` must have the layout of a pointer that is not null, with [`None`] as `NULL`,
///   and that pointer must be the return value of [`into_raw`](Self::into_raw).
/// - `self` must have exclusive access to the memory. Forgotten memory must never be used again.
/// - The memory must contain no value, as pools may overwrite it.
pub unsafe trait Memory: Send + Sized {
    /// Transfers ownership of the memory to C.
    ///
    /// Context: Any context. Must not sleep.
    fn into_raw(self) -> NonNull<c_void>;

    /// Takes ownership of memory from C.
    ///
    /// Context: Any context. Must not sleep.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`into_raw`](Self::into_raw), or from C as memory that this type may
    /// own. The caller must give up its ownership.
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self;
}

/// [`Memory`] for a value of one type.
///
/// # Safety
///
/// [`as_value_ptr`](Self::as_value_ptr) must always return the same address, also after a move of
/// `self`. The address must be aligned for a `Value` and valid for reads and writes of one while
/// `self` lives.
pub unsafe trait ValueMemory: Memory {
    /// The type of the value.
    type Value;

    /// Returns the address for the value.
    ///
    /// Context: Any context. Must not sleep.
    fn as_value_ptr(&self) -> NonNull<Self::Value>;
}

/// Sets all of `slots` to [`None`] without dropping their contents.
#[inline]
pub(super) fn empty_slots<M: Memory>(slots: &mut [MaybeUninit<M>]) -> &mut [Option<M>] {
    // SAFETY: `slots` is valid for writes.
    unsafe { slots.as_mut_ptr().write_bytes(0, slots.len()) };
    // SAFETY: `Option<M>` has the layout of `M`, with zeroes for `None`, by the contract of
    // `Memory`. The return value continues the borrow.
    unsafe { slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}

/// Views slots that hold memory as slots that own it.
///
/// # Safety
///
/// All of `slots` must hold memory, and the caller must give up its ownership.
#[inline]
pub(super) unsafe fn full_slots<M: Memory>(slots: &mut [MaybeUninit<M>]) -> &mut [Option<M>] {
    // SAFETY: `Option<M>` has the layout of `M` by the contract of `Memory`, and each slot holds
    // one by the safety requirements. The return value continues the borrow.
    unsafe { slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}

// SAFETY:
// - `Page` documents its layout.
// - A page has exclusive access by its type invariants, and frees its memory on drop only.
// - Bytes are not a value.
unsafe impl<const ORDER: u32> Memory for Page<ORDER> {
    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        Page::into_raw(self).cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // SAFETY: By the safety requirements.
        unsafe { Page::from_raw(raw.cast()) }
    }
}

/// Memory for a `T`, which only its pool can free.
///
/// A slot has no methods of its own: it is the slot type of
/// [`Mempool::alloc_bulk`](super::Mempool::alloc_bulk). Dropping it leaks its memory.
///
/// # Invariants
///
/// The pointer is aligned for a `T` and valid for reads and writes of one. `self` is its only
/// owner.
#[repr(transparent)]
pub struct RawElement<T>(NonNull<MaybeUninit<T>>);

// SAFETY: It contains no value, and the sources with slots free them in any task.
unsafe impl<T> Send for RawElement<T> {}

// SAFETY: A `&RawElement` gives access to the address only.
unsafe impl<T> Sync for RawElement<T> {}

// SAFETY:
// - It is a transparent `NonNull`.
// - `self` owns the memory by the type invariants, and never frees it.
// - No method writes a value to it.
unsafe impl<T> Memory for RawElement<T> {
    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        self.0.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // INVARIANT: By the safety requirements.
        Self(raw.cast())
    }
}

// SAFETY: By the type invariants.
unsafe impl<T> ValueMemory for RawElement<T> {
    type Value = T;

    #[inline]
    fn as_value_ptr(&self) -> NonNull<T> {
        self.0.cast()
    }
}

// SAFETY:
// - `Box` in `rust/kernel/alloc/kbox.rs` is a transparent `NonNull`.
// - A box owns its memory, and frees it on drop only. The memory is allocated, as `into_raw()`
//   rejects types without a size.
// - A `MaybeUninit` is not a value.
unsafe impl<T: Send> Memory for KBox<MaybeUninit<T>> {
    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        const { assert!(size_of::<T>() > 0, "values without a size need no memory") };

        // SAFETY: A box is never null.
        unsafe { NonNull::new_unchecked(KBox::into_raw(self).cast()) }
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // SAFETY: By the safety requirements.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}

// SAFETY: Boxes are aligned, and their memory does not move.
unsafe impl<T: Send> ValueMemory for KBox<MaybeUninit<T>> {
    type Value = T;

    #[inline]
    fn as_value_ptr(&self) -> NonNull<T> {
        // A pointer derived from a shared reference to the memory may not be written through.
        //
        // SAFETY: `Box` in `rust/kernel/alloc/kbox.rs` is a transparent `NonNull`.
        unsafe { mem::transmute_copy::<Self, NonNull<T>>(self) }
    }
}
