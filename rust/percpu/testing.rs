// SPDX-License-Identifier: GPL-2.0

//! Helpers for the tests of per-CPU data and of its users.

use kernel::{
    prelude::*,
    sync::Arc,
    types::NotThreadSafe, //
};

use super::with_interrupts_disabled;

use crate::{
    bindings,
    testing::task::run_jobs, //
};

/// Runs `work` in several tasks at once, and returns the number of tasks.
pub(crate) fn on_all_cpus<T: Send + Sync + 'static>(data: &Arc<T>, work: fn(&T)) -> Result<u64> {
    const TASKS: u64 = 8;

    run_jobs(TASKS as usize, |_| {
        let data = data.clone();
        Ok(move || work(&data))
    })?;
    Ok(TASKS)
}

/// Evidence that migration is disabled: the task stays on its CPU, but may be preempted.
pub(crate) struct MigrationDisabled(NotThreadSafe);

/// Disables migration. The task may take spinlocks, also with `CONFIG_PREEMPT_RT`, where they
/// sleep.
///
/// C: `migrate_disable()` in `include/linux/sched.h`.
pub(crate) fn migrate_disable() -> MigrationDisabled {
    // SAFETY: Only tests call this, in process context.
    unsafe { bindings::migrate_disable() };
    MigrationDisabled(NotThreadSafe)
}

impl Drop for MigrationDisabled {
    fn drop(&mut self) {
        // SAFETY: A call of `migrate_disable()` by this task has no matching call yet, as this is
        // not `Send`.
        unsafe { bindings::migrate_enable() };
    }
}

/// Calls `f` with interrupts disabled, except with `CONFIG_PREEMPT_RT`, where spinlocks sleep.
pub(crate) fn with_interrupts_off_for_locks<R>(f: impl FnOnce() -> R) -> R {
    if cfg!(CONFIG_PREEMPT_RT) {
        return f();
    }
    with_interrupts_disabled(|_| f())
}
