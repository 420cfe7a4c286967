// SPDX-License-Identifier: GPL-2.0

//! Memory cgroups.
//!
//! A [`MemCgroup`] is what a [shrinker](crate::mm::shrinker) is asked to take memory from. Use it to
//! tell one from another.
//!
//! To charge memory, and to keep a reference, are not supported.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use kernel::types::Opaque;

use crate::bindings;

/// A memory cgroup (`struct mem_cgroup`).
///
/// # Invariants
///
/// It is one that somebody has a reference to for as long as it is borrowed.
#[repr(transparent)]
pub struct MemCgroup(Opaque<bindings::mem_cgroup>);

// SAFETY: What `&self` methods read does not change, see `id()`.
unsafe impl Sync for MemCgroup {}

impl MemCgroup {
    /// Borrows what C passed.
    ///
    /// # Safety
    ///
    /// `memcg` must be `NULL`, or a memory cgroup with a reference for all of `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(memcg: *mut bindings::mem_cgroup) -> Option<&'a Self> {
        // SAFETY: By the safety requirements; the type is transparent, and of no mutable borrow.
        // INVARIANT: By the safety requirements.
        unsafe { memcg.cast::<Self>().as_ref() }
    }

    /// Returns the number of the cgroup: that of its directory's inode, as user space knows it.
    ///
    /// Context: any.
    #[inline]
    pub fn id(&self) -> u64 {
        // SAFETY: It is a cgroup by the type invariants, whose number is set before anybody can
        // have a reference: `cgroup_create()` in `kernel/cgroup/cgroup.c`.
        unsafe { bindings::mem_cgroup_id(self.0.get()) }
    }
}
