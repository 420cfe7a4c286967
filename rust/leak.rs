// SPDX-License-Identifier: GPL-2.0

//! Values that tests leak on purpose.
//!
//! Only in test builds.

use kernel::prelude::*;

use crate::bindings;

/// Leaks a value, as [`core::mem::forget()`] does, and lets kmemleak know.
///
/// Nothing that the value refers to is reported as a leak.
///
/// Fails with [`ENOMEM`], and drops the value then.
///
/// Context: process. May sleep.
pub fn forget<T>(value: T) -> Result {
    let value: *mut T = KBox::leak(KBox::new(value, GFP_KERNEL)?);

    if size_of::<T>() != 0 {
        // SAFETY: `value` is the start of an allocation of the slab allocator that is never freed.
        unsafe { bindings::kmemleak_not_leak(value.cast()) };
    }
    Ok(())
}
