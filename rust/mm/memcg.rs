// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups.
//!
//! A [`MemCgroup`] identifies the cgroup for which a [shrinker](crate::mm::shrinker) is called.
//!
//! Charging memory and taking references are not supported.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use kernel::types::Opaque;

use crate::bindings;

/// A memory cgroup (`struct mem_cgroup`).
///
/// # Invariants
///
/// The cgroup has a reference while it is borrowed.
#[repr(transparent)]
pub struct MemCgroup(Opaque<bindings::mem_cgroup>);

// SAFETY: The data that `&self` methods read does not change, see `id()`.
unsafe impl Sync for MemCgroup {}

impl MemCgroup {
    /// Borrows a cgroup that C passed.
    ///
    /// # Safety
    ///
    /// `memcg` must be `NULL`, or a memory cgroup with a reference for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(memcg: *mut bindings::mem_cgroup) -> Option<&'a Self> {
        // SAFETY: By the safety requirements. The type is transparent, and is never borrowed
        // mutably.
        // INVARIANT: By the safety requirements.
        unsafe { memcg.cast::<Self>().as_ref() }
    }

    /// Returns the ID of the cgroup: the inode number of its directory, as in user space.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn id(&self) -> u64 {
        // SAFETY: It is a cgroup by the type invariants. `cgroup_create()` in
        // `kernel/cgroup/cgroup.c` sets its ID before the cgroup can have references.
        unsafe { bindings::mem_cgroup_id(self.0.get()) }
    }
}
