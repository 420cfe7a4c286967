// SPDX-License-Identifier: GPL-2.0

//! What the tests of per-CPU data, and of what is built on it, share.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion, //
    },
    types::NotThreadSafe,
    workqueue, //
};

use super::{
    local_interrupt_disable,
    LocalInterruptDisabled, //
};

use crate::bindings;

/// Runs `work` in more tasks than there are CPUs, and returns how many those were.
pub(crate) fn on_all_cpus<T: Send + Sync + 'static>(data: &Arc<T>, work: fn(&T)) -> Result<u64> {
    const TASKS: u64 = 8;
    let mut done = KVec::new();

    for _ in 0..TASKS {
        let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        done.push(finished.clone(), GFP_KERNEL)?;
        let data = data.clone();
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            work(&data);
            drop(data);
            finished.complete_all();
        })?;
    }
    done.iter()
        .for_each(|finished| finished.wait_for_completion());
    Ok(TASKS)
}

/// Keeps the task on its CPU, where others may run meanwhile, until it is dropped.
pub(crate) struct MigrationDisabled(NotThreadSafe);

/// Keeps the task on its CPU. It may take spinlocks, also where these sleep.
///
/// C: `migrate_disable()` in `include/linux/sched.h`.
pub(crate) fn migrate_disable() -> MigrationDisabled {
    // SAFETY: Only called by tests, in a task.
    unsafe { bindings::migrate_disable() };
    MigrationDisabled(NotThreadSafe)
}

impl Drop for MigrationDisabled {
    fn drop(&mut self) {
        // SAFETY: There is a call of `migrate_disable()` to undo, by this task, as this is not `Send`.
        unsafe { bindings::migrate_enable() };
    }
}

/// Turns interrupts off, unless nobody may take a spinlock then: with `CONFIG_PREEMPT_RT` they sleep.
pub(crate) fn interrupts_off_for_locks() -> Option<LocalInterruptDisabled> {
    (!cfg!(CONFIG_PREEMPT_RT)).then(local_interrupt_disable)
}
