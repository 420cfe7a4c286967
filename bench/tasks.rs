// SPDX-License-Identifier: GPL-2.0

//! Tasks that run the same work at the same time.

use kernel::{
    prelude::*,
    sync::{
        Arc,
        Completion, //
    },
    time::{
        Instant,
        Monotonic, //
    },
    workqueue, //
};

/// Runs `work` in `count` concurrent tasks. Returns their duration in nanoseconds.
pub(crate) fn in_tasks<T: Send + Sync + 'static>(
    count: usize,
    data: &Arc<T>,
    work: impl Fn(&T) + Copy + Send + 'static,
) -> Result<i64> {
    let mut done = KVec::with_capacity(count, GFP_KERNEL)?;
    let start = Arc::pin_init(Completion::new(), GFP_KERNEL)?;

    let mut spawn = || -> Result {
        let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        done.push(finished.clone(), GFP_KERNEL)?;
        let (data, start) = (data.clone(), start.clone());
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            start.wait_for_completion();
            work(&data);
            finished.complete_all();
        })?;
        Ok(())
    };
    // After a failed spawn, the spawned tasks still run to their end.
    let spawned = (0..count).try_for_each(|_| spawn());
    let begin = Instant::<Monotonic>::now();
    start.complete_all();
    spawned?;
    done.iter()
        .for_each(|finished| finished.wait_for_completion());
    Ok(begin.elapsed().as_nanos())
}
