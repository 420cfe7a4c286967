// SPDX-License-Identifier: GPL-2.0

//! The guards of readers, independent of the implementation of SRCU.
//!
//! The kernel and the tests of `tests/host/miri` both run this file.

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};

use super::super::{
    flavor::Flavor,
    guard::Guard, //
};

/// A guard, and the value that a [`Pointer`] had when the guard was taken.
///
/// [`Pointer`]: super::Pointer
///
/// # Invariants
///
/// `value` is valid for reads while `_guard` lives, and nothing writes to it.
#[must_use = "the critical section ends at once"]
pub struct PointerGuard<'a, T, F: Flavor> {
    /// Not a reference: a reference in an argument must be valid until the function returns. A
    /// function that drops this value drops `_guard`, and a writer may then free `value`.
    value: NonNull<T>,
    _guard: Guard<'a, F>,
    _borrows: PhantomData<&'a T>,
}

impl<'a, T, F: Flavor> PointerGuard<'a, T, F> {
    /// Creates a guard of `value`.
    ///
    /// # Safety
    ///
    /// `value` must be valid for reads while `guard` lives, and nothing may write to it.
    #[inline]
    pub(super) unsafe fn new(value: NonNull<T>, guard: Guard<'a, F>) -> Self {
        // INVARIANT: By the safety requirements.
        Self {
            value,
            _guard: guard,
            _borrows: PhantomData,
        }
    }
}

impl<T, F: Flavor> Deref for PointerGuard<'_, T, F> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: By the type invariants. `_guard` is borrowed while the reference lives.
        unsafe { self.value.as_ref() }
    }
}
