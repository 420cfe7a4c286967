// SPDX-License-Identifier: GPL-2.0

//! Handles that always refer to the same value.

use kernel::sync::Arc;

/// A handle that keeps a value alive: a reference or an [`Arc`].
///
/// # Safety
///
/// [`get_ref()`](Self::get_ref) must always return the same value, also after a move of `self`.
pub unsafe trait StableRef {
    /// The type of the value.
    type Target;

    /// Returns the value.
    ///
    /// Context: Any context. Never sleeps.
    fn get_ref(&self) -> &Self::Target;
}

// SAFETY: A reference always refers to the same value.
unsafe impl<T> StableRef for &T {
    type Target = T;

    #[inline]
    fn get_ref(&self) -> &T {
        self
    }
}

// SAFETY: An `Arc` always refers to the same value.
unsafe impl<T> StableRef for Arc<T> {
    type Target = T;

    #[inline]
    fn get_ref(&self) -> &T {
        self
    }
}
