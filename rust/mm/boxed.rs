// SPDX-License-Identifier: GPL-2.0

//! Values in memory that is not `kmalloc()`'s to free.
//!
//! A [`Boxed`] is to a [slab cache](crate::mm::slab) or a [memory pool](crate::mm::mempool) what `KBox` is
//! to `kmalloc()`: it owns a value, and gives its memory back once the value is dropped. Memory
//! comes first and the value second, so an allocation that may sleep and an initialiser that may
//! fail are two steps: if the second fails, the memory goes back to where it is from.

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

/// Owned memory for one value, given back on drop.
///
/// # Safety
///
/// - [`as_ptr`](Self::as_ptr) must always return the same address, aligned for a `Value` and valid
///   for reads and writes of one for as long as `self` lives, wherever it is moved to.
/// - Nothing else may access the memory until `self` is dropped. If it never is, the memory must
///   never be used again.
pub unsafe trait Uninit: Sized {
    /// What there is room for.
    type Value;

    /// Returns where the value goes.
    ///
    /// Context: any.
    fn as_ptr(&self) -> NonNull<Self::Value>;
}

/// A value in memory of `M`, both given up on drop: first the value, then the memory.
///
/// Derefs to the value. A value that is pinned by [`Boxed::pin_init`] or [`Boxed::into_pin`] stays
/// where it is until it is dropped, even if the box is forgotten.
///
/// Drops the value in the context that drops the box, so that is for the stricter of the two: what
/// the destructor of the value asks for, and what giving back the memory does.
///
/// # Invariants
///
/// There is a value at `memory.as_ptr()`, which `self` owns.
pub struct Boxed<M: Uninit> {
    memory: M,
    // Makes it `Send` and `Sync` only if both the memory and the value are.
    _value: PhantomData<M::Value>,
}

impl<M: Uninit> Boxed<M> {
    /// Writes `value` into `memory`.
    ///
    /// Context: any.
    #[inline]
    pub fn write(memory: M, value: M::Value) -> Self {
        // SAFETY: Valid for writes and aligned by the contract of `Uninit`.
        unsafe { memory.as_ptr().write(value) };
        // INVARIANT: Just written, and nobody else has it.
        Self {
            memory,
            _value: PhantomData,
        }
    }

    /// Initialises a value in `memory`.
    ///
    /// Fails as `init` does. The memory is given back then.
    ///
    /// Context: that of `init`, and that of giving back the memory.
    #[inline]
    pub fn init<E>(memory: M, init: impl Init<M::Value, E>) -> Result<Self, E> {
        // SAFETY:
        // - Valid for writes and aligned by the contract of `Uninit`, and nobody else's.
        // - If it fails, the memory is only given back.
        // - `init` may be moved from, as it is an `Init`.
        unsafe { pin_init::raw_try_init(memory.as_ptr().as_ptr(), init) }?;
        // INVARIANT: Just initialised, and nobody else has it.
        Ok(Self {
            memory,
            _value: PhantomData,
        })
    }

    /// Initialises a value in `memory`, where it stays until it is dropped.
    ///
    /// Fails as `init` does. The memory is given back then.
    ///
    /// Context: as [`init`](Self::init).
    #[inline]
    pub fn pin_init<E>(memory: M, init: impl PinInit<M::Value, E>) -> Result<Pin<Self>, E> {
        // SAFETY:
        // - Valid for writes and aligned by the contract of `Uninit`, and nobody else's.
        // - If it fails, the memory is only given back.
        // - It is pinned below.
        unsafe { pin_init::raw_try_init(memory.as_ptr().as_ptr(), init) }?;
        // INVARIANT: Just initialised, and nobody else has it.
        Ok(Self::into_pin(Self {
            memory,
            _value: PhantomData,
        }))
    }

    /// Pins the value.
    ///
    /// Context: any.
    #[inline]
    pub fn into_pin(this: Self) -> Pin<Self> {
        // SAFETY: The value does not move with the box, by the contract of `Uninit`, and nothing
        // moves it out: `deref_mut()` cannot be called on a pinned box, and `drop()` drops it in
        // place. Its memory is not used again before that.
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
        // SAFETY: There is a value by the type invariants, and who would change it needs `self`.
        unsafe { self.memory.as_ptr().as_ref() }
    }
}

impl<M: Uninit> DerefMut for Boxed<M> {
    #[inline]
    fn deref_mut(&mut self) -> &mut M::Value {
        // SAFETY: There is a value by the type invariants, and `self` is borrowed mutably.
        unsafe { self.memory.as_ptr().as_mut() }
    }
}

impl<M: Uninit> Drop for Boxed<M> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: There is a value by the type invariants, and nobody uses it again. `memory` is
        // dropped after this, and knows nothing of the value.
        unsafe { ptr::drop_in_place(self.memory.as_ptr().as_ptr()) };
    }
}
