// SPDX-License-Identifier: GPL-2.0

//! Callbacks, and how C calls them.

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

/// What tells how many objects there are to free, and frees some.
///
/// See the [module documentation](super) for the context that the callbacks run in.
#[vtable]
pub trait Callbacks: Send + Sync + 'static {
    /// Returns how many objects there are to free, of the node and the memory cgroup in question.
    ///
    /// What keeps a [scan](Self::scan_objects) from freeing them now does not matter.
    fn count_objects(&self, control: &ShrinkControl) -> Count;

    /// Scans as many objects as [it should](ScanControl::nr_to_scan), frees those it can, and tells
    /// how many.
    ///
    /// It is called if there were any, again and again until enough were scanned or it says
    /// [`Scan::STOP`]. There may be none left by then.
    fn scan_objects(&self, control: &ScanControl) -> Scan;
}

/// Tells whether the current task is in a callback of a shrinker, or in reclaim otherwise.
///
/// C has `PF_MEMALLOC` set for a task that reclaims memory. It does not if callbacks are called for
/// `drop_caches` and debugfs, but ours do themselves.
#[inline]
pub(super) fn is_in_callback() -> bool {
    // SAFETY: It reads a field of the current task, that only this task writes.
    unsafe { bindings::current_is_memalloc() }
}

/// Calls `func` with `PF_MEMALLOC` set.
#[inline]
pub(crate) fn as_in_reclaim<R>(func: impl FnOnce() -> R) -> R {
    // SAFETY: It sets a flag of the current task, that only this task writes.
    let saved = unsafe { bindings::memalloc_noreclaim_save() };
    let ret = func();
    // SAFETY: `saved` is from the call above, in the same task; other scopes have ended.
    unsafe { bindings::memalloc_noreclaim_restore(saved) };
    ret
}

/// What C calls.
type CallbackFn = unsafe extern "C" fn(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong;

/// Calls a callback for `drop_caches` or debugfs, which takes nodes that cannot be from its writer.
///
/// Not in line, so that the only copy of the callback is for when memory is short.
///
/// # Safety
///
/// C must have called back with these, of this shrinker.
#[cold]
#[inline(never)]
unsafe fn call_as_in_reclaim(
    callback: CallbackFn,
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    // SAFETY: C passed it.
    let nid = unsafe { (*control).nid };
    // SAFETY: C checked that it is less than `nr_node_ids`.
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
/// C must call back with these, of a registered shrinker for `T`.
pub(super) unsafe extern "C" fn count_objects<T: Callbacks>(
    shrinker: *mut bindings::shrinker,
    control: *mut bindings::shrink_control,
) -> c_ulong {
    if !is_in_callback() {
        // SAFETY: By the safety requirements.
        return unsafe { call_as_in_reclaim(count_objects::<T>, shrinker, control) };
    }
    // SAFETY: C does not write to it while it is registered.
    let data = unsafe { (*shrinker).private_data };
    // SAFETY: It is a `T` that is kept until the shrinker is unregistered, which waits for this.
    let callbacks = unsafe { &*data.cast::<T>() };
    // SAFETY: C passed it, and this does not return before `'a` ends.
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
    // SAFETY: As in `count_objects()`, and this is `scan_objects`.
    let scan_control = unsafe { ScanControl::from_raw(control) };

    let (freed, scanned) = callbacks.scan_objects(scan_control).into_raw();
    if let Some(scanned) = scanned {
        // SAFETY: C passed it, and nobody else uses it: `scan_control` is not used any more.
        unsafe { (*control).nr_scanned = scanned };
    }
    freed
}
