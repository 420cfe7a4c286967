// SPDX-License-Identifier: GPL-2.0

//! What the tests of per-CPU data, and of what is built on it, share.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion, //
    },
    workqueue, //
};

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
