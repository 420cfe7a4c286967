// SPDX-License-Identifier: GPL-2.0

//! What a pool is made of while nobody uses it.

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
///   and that pointer must be what [`into_raw`](Self::into_raw) returns.
/// - `self` must be the only one to access the memory. If it is forgotten, the memory must never be
///   used again.
/// - There must be no value in the memory, as pools may overwrite what is there.
pub unsafe trait Memory: Send + Sized {
    /// Gives the memory to C.
    fn into_raw(self) -> NonNull<c_void>;

    /// Takes memory back from C.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`into_raw`](Self::into_raw), or from C as memory that this type may
    /// own, and the caller gives it away.
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self;
}

/// [`Memory`] for a value of one type.
///
/// # Safety
///
/// [`as_value_ptr`](Self::as_value_ptr) must always return the same address, aligned for a `Value`
/// and valid for reads and writes of one for as long as `self` lives, wherever it is moved to.
pub unsafe trait ValueMemory: Memory {
    /// What there is room for.
    type Value;

    /// Returns where the value goes.
    fn as_value_ptr(&self) -> NonNull<Self::Value>;
}

/// Makes room of `slots`, whatever is there.
#[inline]
pub(super) fn empty_slots<M: Memory>(slots: &mut [MaybeUninit<M>]) -> &mut [Option<M>] {
    // SAFETY: `slots` is valid for writes.
    unsafe { slots.as_mut_ptr().write_bytes(0, slots.len()) };
    // SAFETY: `Option<M>` has the layout of `M`, with zeroes for `None`, by the contract of
    // `Memory`. The borrow goes on in what is returned.
    unsafe { slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}

/// Views memory as what owns it.
///
/// # Safety
///
/// All of `slots` must hold memory, which the caller gives away.
#[inline]
pub(super) unsafe fn full_slots<M: Memory>(slots: &mut [MaybeUninit<M>]) -> &mut [Option<M>] {
    // SAFETY: `Option<M>` has the layout of `M` by the contract of `Memory`, and there is one by
    // the safety requirements. The borrow goes on in what is returned.
    unsafe { slice::from_raw_parts_mut(slots.as_mut_ptr().cast(), slots.len()) }
}

// SAFETY:
// - `Page` documents its layout.
// - By its type invariants; it frees its pages on drop only.
// - Bytes are no value.
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

/// Memory for a `T` that only the pool it is from can free.
///
/// There is nothing to do with one: it is what [`Mempool::alloc_bulk`](super::Mempool::alloc_bulk)
/// asks room for. Its memory leaks on drop.
///
/// # Invariants
///
/// The pointer is aligned for a `T`, valid for reads and writes of one, and nobody else's.
#[repr(transparent)]
pub struct Slot<T>(NonNull<MaybeUninit<T>>);

// SAFETY: There is no value in it, and the sources that have slots free them in any task.
unsafe impl<T> Send for Slot<T> {}

// SAFETY: There is nothing to do with a `&Slot`.
unsafe impl<T> Sync for Slot<T> {}

// SAFETY:
// - A `NonNull`, and transparent.
// - By the type invariants; it never frees its memory.
// - There is no way to put a value in it.
unsafe impl<T> Memory for Slot<T> {
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
unsafe impl<T> ValueMemory for Slot<T> {
    type Value = T;

    #[inline]
    fn as_value_ptr(&self) -> NonNull<T> {
        self.0.cast()
    }
}

// SAFETY:
// - `Box` in `rust/kernel/alloc/kbox.rs` is a transparent `NonNull`.
// - A box owns its memory, and frees it on drop only. There is some, as pools of values without a
//   size are refused here.
// - A `MaybeUninit` is no value.
unsafe impl<T: Send> Memory for KBox<MaybeUninit<T>> {
    #[inline]
    fn into_raw(self) -> NonNull<c_void> {
        const { assert!(size_of::<T>() > 0, "values without a size need no memory") };

        // SAFETY: Boxes are not null.
        unsafe { NonNull::new_unchecked(KBox::into_raw(self).cast()) }
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self {
        // SAFETY: By the safety requirements.
        unsafe { KBox::from_raw(raw.as_ptr().cast()) }
    }
}

// SAFETY: Boxes are aligned, and their memory stays where it is.
unsafe impl<T: Send> ValueMemory for KBox<MaybeUninit<T>> {
    type Value = T;

    #[inline]
    fn as_value_ptr(&self) -> NonNull<T> {
        // A reference to the memory would not do to write to it.
        //
        // SAFETY: `Box` in `rust/kernel/alloc/kbox.rs` is a transparent `NonNull`.
        unsafe { mem::transmute_copy::<Self, NonNull<T>>(self) }
    }
}
