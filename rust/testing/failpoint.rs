// SPDX-License-Identifier: GPL-2.0

//! Calls that fail on purpose, to test the error handling.
//!
//! Only in test builds. `fault` makes allocations fail, which requires a kernel with fault
//! injection.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    task::Task, //
};

/// A call that fails while a test requests it.
pub struct Failpoint {
    /// The task for which the call fails, 0 for none.
    task: Atomic<usize>,
}

impl Failpoint {
    /// Creates a failpoint that does not fail.
    pub(crate) const fn new() -> Self {
        Self {
            task: Atomic::new(0),
        }
    }

    /// Fails with [`ENOMEM`] if [`fail()`](Self::fail) of this task is running.
    ///
    /// Context: Any context. Never sleeps.
    pub(crate) fn check(&self) -> Result {
        if self.task.load(Relaxed) == Task::current_raw().addr() {
            Err(ENOMEM)
        } else {
            Ok(())
        }
    }

    /// Makes the call fail for this task while `f` runs. Only one test at a time may use it.
    ///
    /// Context: Process context. May sleep if `f` sleeps.
    pub fn fail<R>(&self, f: impl FnOnce() -> R) -> R {
        self.task.store(Task::current_raw().addr(), Relaxed);
        let result = f();
        self.task.store(0, Relaxed);
        result
    }
}
