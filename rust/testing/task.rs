// SPDX-License-Identifier: GPL-2.0

//! The state of the current task, and jobs that other tasks run.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        Completion, //
    },
    workqueue, //
};

use crate::bindings;

/// Returns whether the current task is in a NOIO scope (`PF_MEMALLOC_NOIO`).
///
/// Context: Any context. Never sleeps. In an interrupt, the answer is that of the interrupted task. C:
/// `memalloc_noio_save()` in `include/linux/sched/mm.h`.
pub fn in_noio_scope() -> bool {
    // SAFETY: `get_current()` has no preconditions.
    let task = unsafe { bindings::get_current() };

    // SAFETY: The current task exists while it runs, and no other task writes its flags.
    let flags = unsafe { (*task).flags };

    flags & bindings::PF_MEMALLOC_NOIO != 0
}

/// A job that another task runs.
pub(crate) struct OtherTask(Arc<Job>);

#[pin_data]
struct Job {
    #[pin]
    done: Completion,
    is_done: Atomic<bool>,
}

impl OtherTask {
    /// Starts the job.
    pub(crate) fn start(job: impl FnOnce() + Send + 'static) -> Result<Self> {
        let this = Arc::pin_init(
            pin_init!(Job {
                done <- Completion::new(),
                is_done: Atomic::new(false),
            }),
            GFP_KERNEL,
        )?;
        let theirs = this.clone();
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            job();
            theirs.is_done.store(true, Release);
            theirs.done.complete_all();
        })?;
        Ok(Self(this))
    }

    /// Returns whether the job is done.
    pub(crate) fn is_done(&self) -> bool {
        self.0.is_done.load(Acquire)
    }

    /// Waits until the job is done.
    pub(crate) fn wait(self) {
        self.0.done.wait_for_completion();
    }
}

/// Runs `count` jobs, each in its own task, and waits for them. `job` returns the job of a number.
pub(crate) fn run_jobs<J>(count: usize, mut job: impl FnMut(usize) -> Result<J>) -> Result
where
    J: FnOnce() + Send + 'static,
{
    let mut tasks = KVec::with_capacity(count, GFP_KERNEL)?;

    let started = (0..count).try_for_each(|number| {
        let task = OtherTask::start(job(number)?)?;
        Ok(tasks.push(task, GFP_KERNEL)?)
    });
    // After a failure, the jobs that were started still run.
    tasks.into_iter().for_each(OtherTask::wait);
    started
}
