// SPDX-License-Identifier: GPL-2.0

//! Tools for tests that run into lockdep on purpose.
//!
//! Only in test builds.

use crate::bindings;

/// Returns whether lockdep is active. It disables itself after its first report.
pub(crate) fn is_active() -> bool {
    // SAFETY: `debug_locks` is an integer that only changes to 0.
    unsafe { (&raw const bindings::debug_locks).read_volatile() != 0 }
}

/// Calls `f`, which lockdep takes for a part of memory reclaim.
///
/// Without lockdep, just calls `f`.
pub(crate) fn in_reclaim<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: Only sets lockdep's state of this task. The call below resets it.
    unsafe { bindings::fs_reclaim_acquire(bindings::GFP_KERNEL) };
    let result = f();
    // SAFETY: As above.
    unsafe { bindings::fs_reclaim_release(bindings::GFP_KERNEL) };
    result
}
