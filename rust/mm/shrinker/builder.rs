// SPDX-License-Identifier: GPL-2.0

//! A shrinker that nobody calls yet.

use kernel::{
    ffi::c_uint,
    prelude::*,
    sync::Arc, //
};

use core::{
    mem::ManuallyDrop,
    num::NonZeroU32,
    ops::BitOr,
    ptr::NonNull, //
};

use super::{
    callbacks::{
        is_in_callback,
        Callbacks, //
    },
    registration::Registration, //
};

use crate::bindings;

/// What a [`Shrinker`] can tell apart.
///
/// Combine them with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(c_uint);

impl Flags {
    /// Nothing: all its objects are alike.
    pub const NONE: Self = Self(0);

    /// NUMA nodes: it is called for each (`SHRINKER_NUMA_AWARE`).
    pub const NUMA_AWARE: Self = Self(bindings::SHRINKER_NUMA_AWARE);

    /// Memory cgroups: it is called for each that may have objects (`SHRINKER_MEMCG_AWARE`).
    ///
    /// The kernel knows which those are from a [list](crate::mm::list_lru) of the shrinker only.
    pub const MEMCG_AWARE: Self = Self(bindings::SHRINKER_MEMCG_AWARE);

    /// As [`Self::MEMCG_AWARE`], of objects that are not in slab memory, and so are called for
    /// also where the kernel was told not to charge that (`SHRINKER_NONSLAB`).
    pub const MEMCG_AWARE_NONSLAB: Self =
        Self(bindings::SHRINKER_MEMCG_AWARE | bindings::SHRINKER_NONSLAB);
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A shrinker that nobody calls yet.
///
/// One that is dropped in a callback of any shrinker stays, as a
/// [registration](Registration#dropped-in-a-callback) does: others may hold the lock that this takes
/// while they wait for the callback to free memory.
///
/// # Invariants
///
/// `raw` was returned by `shrinker_alloc()`, and is neither registered nor freed.
pub struct Shrinker {
    raw: NonNull<bindings::shrinker>,
}

// SAFETY: `shrinker_register()` and `shrinker_free()` may be called by any task.
unsafe impl Send for Shrinker {}

// SAFETY: `&self` methods only read what C does not write before it is registered.
unsafe impl Sync for Shrinker {}

impl Shrinker {
    /// Allocates a shrinker. Its name is for debugfs, where a number makes it unique.
    ///
    /// One with a `/` in its name does not appear there.
    ///
    /// Fails with [`ENOMEM`], and with [`EDEADLK`] in a callback of any shrinker.
    ///
    /// Context: process. Sleeps. C: `shrinker_alloc()` in `mm/shrinker.c`.
    pub fn new(name: &CStr, flags: Flags) -> Result<Self> {
        if is_in_callback() {
            return Err(EDEADLK);
        }
        // SAFETY:
        // - The format is a string that takes one other, as follows.
        // - The flags are of those for users.
        // - `name` is copied, as it is not the kernel's own.
        let raw =
            unsafe { bindings::shrinker_alloc(flags.0, c"%s".as_char_ptr(), name.as_char_ptr()) };
        // INVARIANT: Just allocated.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Sets how many objects it takes to make one of them again, in disk seeks.
    ///
    /// The more there are, the fewer objects are asked for. The default is 2. With 0, half of all
    /// are, however little memory is needed: for those that are easily made again.
    ///
    /// Context: any.
    pub fn set_seeks(self, seeks: u16) -> Self {
        // SAFETY: C does not look at it before it is registered, which it is not by the type
        // invariants.
        unsafe { (*self.as_raw()).seeks = seeks.into() };
        self
    }

    /// Sets how many objects are asked for at a time. The default is 128.
    ///
    /// Fewer are asked for only if there are no more.
    ///
    /// Context: any.
    pub fn set_batch(self, objects: NonZeroU32) -> Self {
        // CAST: From 32 to 64 bits.
        let batch = objects.get() as isize;
        // SAFETY: As in `set_seeks()`.
        unsafe { (*self.as_raw()).batch = batch };
        self
    }

    /// Tells whether it is called for each NUMA node.
    ///
    /// Context: any.
    pub fn is_numa_aware(&self) -> bool {
        self.flags() & bindings::SHRINKER_NUMA_AWARE != 0
    }

    /// Tells whether it is called for memory cgroups.
    ///
    /// It is not without their support in the kernel, or if that is switched off, even with
    /// [`Flags::MEMCG_AWARE`].
    ///
    /// Context: any.
    pub fn is_memcg_aware(&self) -> bool {
        self.flags() & bindings::SHRINKER_MEMCG_AWARE != 0
    }

    fn flags(&self) -> c_uint {
        // SAFETY: C does not write to it before it is registered, which it is not by the type
        // invariants.
        unsafe { (*self.as_raw()).flags }
    }

    /// Registers it: the callbacks may be called from now on, by any task.
    ///
    /// Fails with [`ENOMEM`]; with [`EDEADLK`] in a callback of any shrinker; and with [`EINVAL`] if
    /// the code of the callbacks is not in the module that implements [`Callbacks`]. It is dropped
    /// then.
    ///
    /// Context: process. Sleeps. C: `shrinker_register()` in `mm/shrinker.c`.
    pub fn register<T: Callbacks>(self, callbacks: Arc<T>) -> Result<Registration<T>> {
        Registration::new(self, callbacks)
    }

    /// Returns the shrinker as C takes it.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::shrinker {
        self.raw.as_ptr()
    }

    /// Gives the shrinker away, to be freed by the caller.
    pub(super) fn into_raw(self) -> NonNull<bindings::shrinker> {
        ManuallyDrop::new(self).raw
    }
}

/// Sleeps.
impl Drop for Shrinker {
    fn drop(&mut self) {
        if is_in_callback() {
            pr_err!("a shrinker was dropped in a callback, and stays\n");
            return;
        }
        // SAFETY: It is not registered by the type invariants, so nobody uses it, and it is not
        // used again.
        unsafe { bindings::shrinker_free(self.as_raw()) };
    }
}
