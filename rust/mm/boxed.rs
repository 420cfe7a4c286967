// SPDX-License-Identifier: GPL-2.0

//! Values in memory that is not from `kmalloc()`.
//!
//! A [`Boxed`] owns a value in memory of a [slab cache](crate::mm::slab) or a
//! [memory pool](crate::mm::mempool), as a `KBox` does in `kmalloc()` memory. It drops the value
//! and then frees the memory. Creation has two steps: the allocation, which may sleep, and the
//! initialiser, which may fail. If the initialiser fails, the memory returns to its source.

use kernel::prelude::*;

use core::{
    marker::PhantomData,
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::{
        self,
        NonNull, //
    },
};

/// Owned memory for a value, freed on drop.
///
/// # Safety
///
/// - [`as_ptr`](Self::as_ptr) must always return the same address, also after a move of `self`. The
///   address must be aligned for a `Value` and valid for reads and writes of one while `self`
///   lives.
/// - Nothing else may access the memory until `self` is dropped. If `self` is forgotten, the memory
///   must never be used again.
pub unsafe trait Uninit: Sized {
    /// The type of the value.
    type Value;

    /// Returns the address for the value.
    ///
    /// Context: Any context. Never sleeps.
    fn as_ptr(&self) -> NonNull<Self::Value>;
}

/// A value in memory of type `M`. Drops the value first and then the memory.
///
/// Derefs to the value. A pinned value does not move until it is dropped, even if the box is
/// forgotten.
///
/// The context that drops the box must allow both the destructor of the value and the freeing of
/// the memory.
///
/// # Invariants
///
/// `memory.as_ptr()` points to a value that `self` owns.
pub struct Boxed<M: Uninit> {
    memory: M,
    // The box is `Send` and `Sync` only if both the memory and the value are.
    _value: PhantomData<M::Value>,
}

impl<M: Uninit> Boxed<M> {
    /// Writes `value` to `memory`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub(crate) fn write(memory: M, value: M::Value) -> Self {
        // SAFETY: The address is valid for writes and aligned by the contract of `Uninit`.
        unsafe { memory.as_ptr().write(value) };
        // INVARIANT: The value was just written, and `self` is its only owner.
        Self {
            memory,
            _value: PhantomData,
        }
    }

    /// Initialises a value in `memory`.
    ///
    /// Returns the error of `init`, after freeing the memory.
    ///
    /// Context: The caller's context. May sleep if `init` or freeing the memory does.
    #[inline]
    pub(crate) fn init<E>(memory: M, init: impl Init<M::Value, E>) -> Result<Self, E> {
        // SAFETY:
        // - The address is valid for writes and aligned, and `memory` has exclusive access, by the
        //   contract of `Uninit`.
        // - If `init` fails, the memory is only freed.
        // - The value may be moved, as `init` is an `Init`.
        unsafe { pin_init::raw_try_init(memory.as_ptr().as_ptr(), init) }?;
        // INVARIANT: The value was just initialised, and `self` is its only owner.
        Ok(Self {
            memory,
            _value: PhantomData,
        })
    }

    /// Initialises a pinned value in `memory`.
    ///
    /// Returns the error of `init`, after freeing the memory.
    ///
    /// Context: As [`init`](Self::init).
    #[inline]
    pub(crate) fn pin_init<E>(memory: M, init: impl PinInit<M::Value, E>) -> Result<Pin<Self>, E> {
        // SAFETY:
        // - The address is valid for writes and aligned, and `memory` has exclusive access, by the
        //   contract of `Uninit`.
        // - If `init` fails, the memory is only freed.
        // - The value is pinned below.
        unsafe { pin_init::raw_try_init(memory.as_ptr().as_ptr(), init) }?;
        // INVARIANT: The value was just initialised, and `self` is its only owner.
        Ok(Self::into_pin(Self {
            memory,
            _value: PhantomData,
        }))
    }

    /// Pins the value.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub(crate) fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: The value does not move with the box, by the contract of `Uninit`, and no method
        // moves it out: `deref_mut()` cannot be called on a pinned box, and `drop()` drops the
        // value in place. The memory is not reused before that.
        unsafe { Pin::new_unchecked(this) }
    }
}

impl<M: Uninit> From<Boxed<M>> for Pin<Boxed<M>> {
    #[inline]
    fn from(this: Boxed<M>) -> Self {
        Boxed::into_pin(this)
    }
}

impl<M: Uninit> Deref for Boxed<M> {
    type Target = M::Value;

    #[inline]
    fn deref(&self) -> &M::Value {
        // SAFETY: The value exists by the type invariants, and changing it requires `&mut self`.
        unsafe { self.memory.as_ptr().as_ref() }
    }
}

impl<M: Uninit> DerefMut for Boxed<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M::Value {
        // SAFETY: The value exists by the type invariants, and `self` is borrowed mutably.
        unsafe { self.memory.as_ptr().as_mut() }
    }
}

impl<M: Uninit> Drop for Boxed<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: The value exists by the type invariants, and is not used again. `memory` is
        // dropped after this, and does not access the value.
        unsafe { ptr::drop_in_place(self.memory.as_ptr().as_ptr()) };
    }
}
