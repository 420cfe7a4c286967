// SPDX-License-Identifier: GPL-2.0

//! Calls that fail on purpose, for tests of what follows.
//!
//! Only in test builds. `fault` lets allocations fail, too, which takes a kernel that can do that.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::bindings;

/// A call that fails when a test says so.
pub struct Failpoint {
    /// The task for which it fails, 0 if there is none.
    task: Atomic<usize>,
}

impl Failpoint {
    /// Makes one that does not fail.
    pub(crate) const fn new() -> Self {
        Self {
            task: Atomic::new(0),
        }
    }

    /// Fails with [`ENOMEM`] if this is called within [`fail()`](Self::fail).
    ///
    /// Context: any.
    pub(crate) fn check(&self) -> Result {
        if self.task.load(Relaxed) == current_task() {
            Err(ENOMEM)
        } else {
            Ok(())
        }
    }

    /// Has the call fail while `f` runs, for this task. One test at a time may use it.
    ///
    /// Context: process. Sleeps if `f` does.
    pub fn fail<R>(&self, f: impl FnOnce() -> R) -> R {
        self.task.store(current_task(), Relaxed);
        let result = f();
        self.task.store(0, Relaxed);
        result
    }
}

/// Returns a number that only the current task has.
fn current_task() -> usize {
    // SAFETY: `get_current()` has no preconditions.
    // CAST: To an address.
    unsafe { bindings::get_current() as usize }
}
