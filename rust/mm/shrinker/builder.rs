// SPDX-License-Identifier: GPL-2.0

//! A shrinker that is not registered.

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

/// The flags of a [`Shrinker`].
///
/// Flags are combined with `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(c_uint);

impl Flags {
    /// No flags: the callbacks apply to all objects.
    pub const NONE: Self = Self(0);

    /// Calls the callbacks for each NUMA node (`SHRINKER_NUMA_AWARE`).
    pub const NUMA_AWARE: Self = Self(bindings::SHRINKER_NUMA_AWARE);

    /// Calls the callbacks for each memory cgroup that may have objects (`SHRINKER_MEMCG_AWARE`).
    ///
    /// The kernel knows the cgroups with objects only from a [list](crate::mm::list_lru) of the
    /// shrinker.
    pub const MEMCG_AWARE: Self = Self(bindings::SHRINKER_MEMCG_AWARE);
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A shrinker that is not registered.
///
/// A shrinker that is dropped in a callback of any shrinker leaks, as a
/// [registration](Registration#dropped-in-a-callback) does: the drop takes a lock that another task
/// may hold while it waits for the callback to free memory.
///
/// # Invariants
///
/// `raw` was returned by `shrinker_alloc()`, and is neither registered nor freed.
pub struct Shrinker {
    raw: NonNull<bindings::shrinker>,
}

// SAFETY: `shrinker_register()` and `shrinker_free()` may be called by any task.
unsafe impl Send for Shrinker {}

// SAFETY: `&self` methods only read fields that C does not write before the registration.
unsafe impl Sync for Shrinker {}

impl Shrinker {
    /// The maximum length of a name in bytes. `shrinker_debugfs_add()` in `mm/shrinker_debug.c` has
    /// 128 bytes for the name, a hyphen, a number and a NUL.
    const MAX_NAME_BYTES: usize = 128 - "-2147483647\0".len();

    /// Allocates a shrinker. debugfs shows its name followed by a unique number.
    ///
    /// A shrinker with a `/` in its name does not appear in debugfs.
    ///
    /// Returns [`ENOMEM`], [`EDEADLK`] in a callback of any shrinker, and [`EINVAL`] if the name is
    /// longer than 116 bytes.
    ///
    /// Context: Process context. May sleep. C: `shrinker_alloc()` in `mm/shrinker.c`.
    pub fn new(name: &CStr, flags: Flags) -> Result<Self> {
        if is_in_callback() {
            return Err(EDEADLK);
        }
        // C copies a name of any length, and the kernel warns of an allocation of megabytes.
        if name.to_bytes().len() > Self::MAX_NAME_BYTES {
            return Err(EINVAL);
        }
        // SAFETY:
        // - The format takes one string, the next argument.
        // - `Flags` contains only flags for users.
        // - C copies `name`, because it is not in the kernel's rodata.
        let raw =
            unsafe { bindings::shrinker_alloc(flags.0, c"%s".as_char_ptr(), name.as_char_ptr()) };
        // INVARIANT: The shrinker was just allocated.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
        })
    }

    /// Sets the cost of creating an object again, in disk seeks.
    ///
    /// The higher the cost, the fewer objects are scanned. The default is 2. With 0, half of all
    /// objects are scanned at any memory pressure: use it for objects that are cheap to create.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_seeks(self, seeks: u16) -> Self {
        // SAFETY: C does not read the field before the registration, and `self` is not registered
        // by the type invariants.
        unsafe { (*self.as_raw()).seeks = seeks.into() };
        self
    }

    /// Sets the number of objects per scan. The default is 128.
    ///
    /// A scan is for fewer objects only if there are no more.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_batch(self, objects: NonZeroU32) -> Self {
        // CAST: From 32 to 64 bits.
        let batch = objects.get() as isize;
        // SAFETY: As in `set_seeks()`.
        unsafe { (*self.as_raw()).batch = batch };
        self
    }

    /// Returns whether the callbacks are called for each NUMA node.
    ///
    /// Context: Any context. Never sleeps.
    pub(crate) fn is_numa_aware(&self) -> bool {
        self.flags() & bindings::SHRINKER_NUMA_AWARE != 0
    }

    /// Returns whether the callbacks are called for each memory cgroup.
    ///
    /// False even with [`Flags::MEMCG_AWARE`] if the kernel has no support for memory cgroups, or
    /// if they are disabled.
    ///
    /// Context: Any context. Never sleeps.
    pub(crate) fn is_memcg_aware(&self) -> bool {
        self.flags() & bindings::SHRINKER_MEMCG_AWARE != 0
    }

    fn flags(&self) -> c_uint {
        // SAFETY: C does not write the field before the registration, and `self` is not registered
        // by the type invariants.
        unsafe { (*self.as_raw()).flags }
    }

    /// Registers the shrinker: any task may call the callbacks from now on.
    ///
    /// Returns [`ENOMEM`], [`EDEADLK`] in a callback of any shrinker, and [`EINVAL`] if the code of
    /// the callbacks is not in the module that implements [`Callbacks`]. Returns [`ENODEV`] during
    /// the unload of a module that keeps making registrations. An error drops the shrinker.
    ///
    /// Context: Process context. May sleep. C: `shrinker_register()` in `mm/shrinker.c`.
    pub fn register<T: Callbacks>(self, callbacks: Arc<T>) -> Result<Registration<T>> {
        Registration::new(self, callbacks)
    }

    /// Returns the C shrinker.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::shrinker {
        self.raw.as_ptr()
    }

    /// Transfers ownership of the C shrinker to the caller.
    pub(super) fn into_raw(self) -> NonNull<bindings::shrinker> {
        ManuallyDrop::new(self).raw
    }
}

/// May sleep.
impl Drop for Shrinker {
    fn drop(&mut self) {
        if is_in_callback() {
            pr_err!("shrinker: dropped in a callback, leaking it\n");
            return;
        }
        // SAFETY: The shrinker is not registered by the type invariants, so it has no other users,
        // and is not used again.
        unsafe { bindings::shrinker_free(self.as_raw()) };
    }
}
