// SPDX-License-Identifier: GPL-2.0

//! Flavors: how readers of a domain enter and leave a critical section.

use kernel::ffi::{
    c_char,
    c_int, //
};

use crate::bindings;

/// The C functions of a flavor.
pub(super) mod sealed {
    use super::*;

    /// The C functions of a reader.
    pub trait Raw {
        /// The return value of the enter function, and the argument of the leave function.
        type Cookie: Copy;

        /// Initialises a domain.
        ///
        /// # Safety
        ///
        /// `srcu` must be valid for writes, `name` and `key` must live as long as the domain.
        unsafe fn init(
            srcu: *mut bindings::srcu_struct,
            name: *const c_char,
            key: *mut bindings::lock_class_key,
        ) -> c_int;

        /// Enters a read-side critical section of this task.
        ///
        /// # Safety
        ///
        /// `srcu` must be a domain that [`Raw::init()`] of this flavor initialised.
        unsafe fn read_lock(srcu: *mut bindings::srcu_struct) -> Self::Cookie;

        /// Leaves a read-side critical section.
        ///
        /// # Safety
        ///
        /// `cookie` must be from [`Raw::read_lock()`] of `srcu` in this task and context. Each
        /// cookie is used once.
        unsafe fn read_unlock(srcu: *mut bindings::srcu_struct, cookie: Self::Cookie);
    }

    /// The C functions of a reader whose critical section another task may leave.
    pub trait RawUpDown: Raw {
        /// Enters a read-side critical section that another task may leave.
        ///
        /// # Safety
        ///
        /// As [`Raw::read_lock()`].
        unsafe fn down_read(srcu: *mut bindings::srcu_struct) -> Self::Cookie;

        /// Leaves a read-side critical section.
        ///
        /// # Safety
        ///
        /// `cookie` must be from [`RawUpDown::down_read()`] of `srcu`. Each cookie is used once.
        unsafe fn up_read(srcu: *mut bindings::srcu_struct, cookie: Self::Cookie);
    }
}

use sealed::{
    Raw,
    RawUpDown, //
};

/// The flavor of a [`Domain`](super::Domain): [`Normal`], [`Fast`] or [`FastUpDown`].
pub trait Flavor: Raw + 'static {}

/// A [`Flavor`] with guards that another task may drop.
pub trait UpDown: Flavor + RawUpDown {}

/// Readers with memory barriers and shorter grace periods: `srcu_read_lock()`.
pub enum Normal {}

impl Flavor for Normal {}
impl UpDown for Normal {}

impl Raw for Normal {
    type Cookie = c_int;

    #[inline]
    unsafe fn init(
        srcu: *mut bindings::srcu_struct,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    ) -> c_int {
        // SAFETY: By the contract of this function.
        unsafe { bindings::init_srcu_struct_with_key(srcu, name, key) }
    }

    #[inline]
    unsafe fn read_lock(srcu: *mut bindings::srcu_struct) -> c_int {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_lock(srcu) }
    }

    #[inline]
    unsafe fn read_unlock(srcu: *mut bindings::srcu_struct, cookie: c_int) {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_unlock(srcu, cookie) };
    }
}

impl RawUpDown for Normal {
    #[inline]
    unsafe fn down_read(srcu: *mut bindings::srcu_struct) -> c_int {
        // SAFETY: By the contract of this function. `srcu_down_read()` may be mixed with
        // `srcu_read_lock()`, see its comment in `include/linux/srcu.h`.
        unsafe { bindings::srcu_down_read(srcu) }
    }

    #[inline]
    unsafe fn up_read(srcu: *mut bindings::srcu_struct, cookie: c_int) {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_up_read(srcu, cookie) };
    }
}

/// Readers without memory barriers, also in NMIs: `srcu_read_lock_fast()`.
///
/// RCU must be watching where a guard is taken or dropped, as for `rcu_read_lock()`.
pub enum Fast {}

impl Flavor for Fast {}

impl Raw for Fast {
    type Cookie = *mut bindings::srcu_ctr;

    #[inline]
    unsafe fn init(
        srcu: *mut bindings::srcu_struct,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    ) -> c_int {
        // SAFETY: By the contract of this function.
        unsafe { bindings::init_srcu_struct_fast_with_key(srcu, name, key) }
    }

    #[inline]
    unsafe fn read_lock(srcu: *mut bindings::srcu_struct) -> Self::Cookie {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_lock_fast(srcu) }
    }

    #[inline]
    unsafe fn read_unlock(srcu: *mut bindings::srcu_struct, cookie: Self::Cookie) {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_unlock_fast(srcu, cookie) };
    }
}

/// Readers without memory barriers that another task may leave: `srcu_down_read_fast()`.
///
/// Not in NMIs; otherwise as [`Fast`].
pub enum FastUpDown {}

impl Flavor for FastUpDown {}
impl UpDown for FastUpDown {}

impl Raw for FastUpDown {
    type Cookie = *mut bindings::srcu_ctr;

    #[inline]
    unsafe fn init(
        srcu: *mut bindings::srcu_struct,
        name: *const c_char,
        key: *mut bindings::lock_class_key,
    ) -> c_int {
        // SAFETY: By the contract of this function.
        unsafe { bindings::init_srcu_struct_fast_updown_with_key(srcu, name, key) }
    }

    #[inline]
    unsafe fn read_lock(srcu: *mut bindings::srcu_struct) -> Self::Cookie {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_lock_fast_updown(srcu) }
    }

    #[inline]
    unsafe fn read_unlock(srcu: *mut bindings::srcu_struct, cookie: Self::Cookie) {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_read_unlock_fast_updown(srcu, cookie) };
    }
}

impl RawUpDown for FastUpDown {
    #[inline]
    unsafe fn down_read(srcu: *mut bindings::srcu_struct) -> Self::Cookie {
        // SAFETY: By the contract of this function. `srcu_down_read_fast()` may be mixed with
        // `srcu_read_lock_fast_updown()`, see its comment in `include/linux/srcutree.h`.
        unsafe { bindings::srcu_down_read_fast(srcu) }
    }

    #[inline]
    unsafe fn up_read(srcu: *mut bindings::srcu_struct, cookie: Self::Cookie) {
        // SAFETY: By the contract of this function.
        unsafe { bindings::srcu_up_read_fast(srcu, cookie) };
    }
}
