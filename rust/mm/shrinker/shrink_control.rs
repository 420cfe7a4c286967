// SPDX-License-Identifier: GPL-2.0

//! What callbacks are asked.

use kernel::{
    bindings,
    ffi::c_int,
    types::Opaque, //
};

use core::ops::Deref;

use crate::mm::{
    gfp::Gfp,
    memcg::MemCgroup, //
};

/// Where memory is to be freed (`struct shrink_control`).
///
/// # Invariants
///
/// It is one that C passed to a callback, which is running.
#[repr(transparent)]
pub struct ShrinkControl(Opaque<bindings::shrink_control>);

impl ShrinkControl {
    /// Borrows what C passed to a callback.
    ///
    /// # Safety
    ///
    /// `control` must be what C passed to a callback that does not return in `'a`.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(control: *mut bindings::shrink_control) -> &'a Self {
        // SAFETY: By the safety requirements; the type is transparent.
        // INVARIANT: By the safety requirements.
        unsafe { &*control.cast::<Self>() }
    }

    /// Returns the NUMA node.
    ///
    /// It has a meaning if the shrinker is [`NUMA_AWARE`](super::Flags::NUMA_AWARE): otherwise what
    /// is asked for is to be freed on any node.
    ///
    /// Context: any.
    #[inline]
    pub fn nid(&self) -> u32 {
        // CAST: It is the number of a node, which is not negative.
        self.target().0 as u32
    }

    /// Returns the memory cgroup, if there are any.
    ///
    /// It has a meaning if the shrinker is [`MEMCG_AWARE`](super::Flags::MEMCG_AWARE): otherwise
    /// what is asked for is to be freed in any.
    ///
    /// Context: any.
    #[inline]
    pub fn memcg(&self) -> Option<&MemCgroup> {
        let (_, memcg) = self.target();
        // SAFETY: The caller of the callback has a reference until it returns, which is not before
        // the borrow of `self` ends.
        unsafe { MemCgroup::from_raw(memcg) }
    }

    /// Returns the node and the cgroup as C takes them.
    #[inline]
    pub(crate) fn target(&self) -> (c_int, *mut bindings::mem_cgroup) {
        // SAFETY: C does not write to it while the callback runs.
        let nid = unsafe { (*self.as_raw()).nid };
        // SAFETY: As above.
        let memcg = unsafe { (*self.as_raw()).memcg };
        (nid, memcg)
    }

    /// Returns what C passed.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::shrink_control {
        self.0.get()
    }
}

/// Where, how much, and how memory is to be freed.
///
/// What a scan may do is not for a count to ask: a count is of all there is, and what a scan could
/// not do is deferred, for one that can.
///
/// # Invariants
///
/// It is one that C passed to `scan_objects`, which is running.
#[repr(transparent)]
pub struct ScanControl(ShrinkControl);

impl ScanControl {
    /// Borrows what C passed to `scan_objects`.
    ///
    /// # Safety
    ///
    /// As for [`ShrinkControl::from_raw()`], for that callback.
    #[inline]
    pub(crate) unsafe fn from_raw<'a>(control: *mut bindings::shrink_control) -> &'a Self {
        // SAFETY: By the safety requirements; the types are transparent.
        // INVARIANT: By the safety requirements.
        unsafe { &*control.cast::<Self>() }
    }

    /// Returns how many objects should be scanned, and freed if they may be.
    ///
    /// Context: any.
    #[inline]
    pub fn nr_to_scan(&self) -> usize {
        // SAFETY: C does not write to it while the callback runs.
        unsafe { (*self.as_raw()).nr_to_scan }
    }

    /// Tells whether the scan may start I/O, and wait for it (`__GFP_IO`).
    ///
    /// Context: any.
    #[inline]
    pub fn may_io(&self) -> bool {
        self.gfp().may_start_io()
    }

    /// Tells whether the scan may call into file systems (`__GFP_FS`).
    ///
    /// Context: any.
    #[inline]
    pub fn may_fs(&self) -> bool {
        self.gfp().may_enter_fs()
    }

    /// Returns the flags of the allocation that needs memory.
    #[inline]
    fn gfp(&self) -> Gfp {
        // SAFETY: C does not write to it while the callback runs.
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
