// SPDX-License-Identifier: GPL-2.0

//! The arguments of the callbacks.

use kernel::{
    bindings,
    ffi::c_int,
    types::Opaque, //
};

use core::ops::Deref;

use crate::mm::gfp::Gfp;

/// The node and the memory cgroup of a shrinker call (`struct shrink_control`).
///
/// # Invariants
///
/// C passed it to a callback that is running.
#[repr(transparent)]
pub struct ShrinkControl(Opaque<bindings::shrink_control>);

impl ShrinkControl {
    /// Borrows the argument of a callback.
    ///
    /// # Safety
    ///
    /// C must have passed `control` to a callback that does not return during `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(control: *mut bindings::shrink_control) -> &'a Self {
        // SAFETY: By the safety requirements. The type is transparent.
        // INVARIANT: By the safety requirements.
        unsafe { &*control.cast::<Self>() }
    }

    /// Returns the NUMA node.
    ///
    /// Only meaningful if the shrinker is [`NUMA_AWARE`](super::Flags::NUMA_AWARE). Otherwise the
    /// call is for the objects of all nodes.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn nid(&self) -> u32 {
        // CAST: A node number is not negative.
        self.target().0 as u32
    }

    /// Returns the node and the cgroup as C types.
    #[inline]
    pub(crate) fn target(&self) -> (c_int, *mut bindings::mem_cgroup) {
        // SAFETY: C does not write the field while the callback runs.
        let nid = unsafe { (*self.as_raw()).nid };
        // SAFETY: As above.
        let memcg = unsafe { (*self.as_raw()).memcg };
        (nid, memcg)
    }

    /// Returns the C argument of the callback.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::shrink_control {
        self.0.get()
    }
}

/// The argument of a scan: node, cgroup, number of objects and allocation context.
///
/// Only a scan has the allocation context. A count is of all objects: objects that a scan could not
/// free in its context are deferred to a scan that can.
///
/// # Invariants
///
/// C passed it to `scan_objects`, which is running.
#[repr(transparent)]
pub struct ScanControl(ShrinkControl);

impl ScanControl {
    /// Borrows the argument of `scan_objects`.
    ///
    /// # Safety
    ///
    /// As for [`ShrinkControl::from_raw()`], for the callback `scan_objects`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(control: *mut bindings::shrink_control) -> &'a Self {
        // SAFETY: By the safety requirements. The types are transparent.
        // INVARIANT: By the safety requirements.
        unsafe { &*control.cast::<Self>() }
    }

    /// Returns the number of objects to scan, and to free if possible.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn nr_to_scan(&self) -> usize {
        // SAFETY: C does not write the field while the callback runs.
        unsafe { (*self.as_raw()).nr_to_scan }
    }

    /// Returns whether the scan may start I/O and wait for its completion (`__GFP_IO`).
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn may_io(&self) -> bool {
        self.gfp().contains(Gfp::IO)
    }

    /// Returns whether the scan may call into file systems (`__GFP_FS`).
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn may_fs(&self) -> bool {
        self.gfp().contains(Gfp::FS)
    }

    /// Returns the flags of the allocation that triggered reclaim.
    #[inline]
    fn gfp(&self) -> Gfp {
        // SAFETY: C does not write the field while the callback runs.
        Gfp::from_raw(unsafe { (*self.as_raw()).gfp_mask })
    }
}

impl Deref for ScanControl {
    type Target = ShrinkControl;

    #[inline]
    fn deref(&self) -> &ShrinkControl {
        &self.0
    }
}
