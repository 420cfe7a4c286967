// SPDX-License-Identifier: GPL-2.0

//! The callbacks of a shrinker, and their C entry points.

use kernel::{
    ffi::c_ulong,
    prelude::*, //
};

use super::{
    counts::{
        Count,
        Scan, //
    },
    shrink_control::{
        ScanControl,
        ShrinkControl, //
    }, //
};

use crate::bindings;

/// The callbacks of a shrinker, which count freeable objects and free some of them.
///
/// The [module documentation](super) describes the context of the callbacks.
#[vtable]
pub trait Callbacks: Send + Sync + 'static {
    /// Returns the number of freeable objects of the node and the memory cgroup in `control`.
    ///
    /// The count includes objects that a [scan](Self::scan_objects) cannot free at the moment.
    ///
    /// Context: The caller's context. May sleep.
    fn count_objects(&self, control: &ShrinkControl) -> Count;

    /// Scans [`nr_to_scan()`](ScanControl::nr_to_scan) objects, frees the objects that it can, and
    /// returns their number.
    ///
    /// Called if [`count_objects()`](Self::count_objects) returned objects, until enough objects
    /// were scanned or the callback returns [`Scan::STOP`]. No objects may be left by then.
    ///
    /// Context: The caller's context. May sleep.
    fn scan_objects(&self, control: &ScanControl) -> Scan;
}

/// Returns whether the current task is in a callback of a shrinker, or otherwise in reclaim.
///
/// C sets `PF_MEMALLOC` for a task that reclaims memory. C does not set the flag for `drop_caches`
/// and debugfs, but the callbacks of this library do.
#[inline]
pub(super) fn is_in_callback() -> bool {
    // SAFETY: The function reads a field of the current task that only this task writes.
    unsafe { bindings::current_is_memalloc() }
}

/// Calls `func` with `PF_MEMALLOC` set.
#[inline]
pub(crate) fn as_in_reclaim<R>(func: impl FnOnce() -> R) -> R {
    // SAFETY: The function sets a flag of the current task, which only this task writes.
    let saved = unsafe { bindings::memalloc_noreclaim_save() };
    let ret = func();
    // SAFETY: The call above returned `saved` in the same task, and the scopes within have ended.
    unsafe { bindings::memalloc_noreclaim_restore(saved) };
    ret
}

/// The type of the C callbacks.
type CallbackFn = unsafe extern "C" fn(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong;

/// Calls a callback for `drop_caches` or debugfs. A write to debugfs may name an impossible node.
///
/// Not inlined, so that the only inlined copy of the callback is the one for reclaim.
///
/// # Safety
///
/// C must have called back with these arguments for this shrinker.
#[cold]
#[inline(never)]
unsafe fn call_as_in_reclaim(
    callback: CallbackFn,
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: C passed `control`.
    let nid = unsafe { (*control).nid };
    // SAFETY: C checked that `nid` is less than `nr_node_ids`.
    if !unsafe { bindings::node_possible(nid) } {
        return 0;
    }
    // SAFETY: By the safety requirements.
    as_in_reclaim(|| unsafe { callback(shrinker, control) })
}

/// Calls [`Callbacks::count_objects()`].
///
/// # Safety
///
/// C must call this with the arguments of a registered shrinker for `T`.
pub(super) unsafe extern "C" fn count_objects<T: Callbacks>(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    if !is_in_callback() {
        // SAFETY: By the safety requirements.
        return unsafe { call_as_in_reclaim(count_objects::<T>, shrinker, control) };
    }
    // SAFETY: C does not write the field while the shrinker is registered.
    let data = unsafe { (*shrinker).private_data };
    // SAFETY: `data` points to a `T` that lives until the shrinker is unregistered, which waits for
    // this callback.
    let callbacks = unsafe { &*data.cast::<T>() };
    // SAFETY: C passed `control`, and this function does not return before `'a` ends.
    let control = unsafe { ShrinkControl::from_raw(control) };

    callbacks.count_objects(control).into_raw()
}

/// Calls [`Callbacks::scan_objects()`].
///
/// # Safety
///
/// As for [`count_objects()`].
pub(super) unsafe extern "C" fn scan_objects<T: Callbacks>(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    if !is_in_callback() {
        // SAFETY: By the safety requirements.
        return unsafe { call_as_in_reclaim(scan_objects::<T>, shrinker, control) };
    }
    // SAFETY: As in `count_objects()`.
    let data = unsafe { (*shrinker).private_data };
    // SAFETY: As in `count_objects()`.
    let callbacks = unsafe { &*data.cast::<T>() };
    // SAFETY: As in `count_objects()`, and this is the `scan_objects` callback.
    let scan_control = unsafe { ScanControl::from_raw(control) };

    let (freed, scanned) = callbacks.scan_objects(scan_control).into_raw();
    if let Some(scanned) = scanned {
        // SAFETY: C passed `control`, and `scan_control` is not used any more.
        unsafe { (*control).nr_scanned = scanned };
    }
    freed
}
