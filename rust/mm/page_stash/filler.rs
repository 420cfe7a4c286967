// SPDX-License-Identifier: GPL-2.0

//! The work queue that fills the stashes.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    workqueue::Queue, //
};

use core::ptr;

use crate::{
    bindings,
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

use super::shared::Shared;

/// The work queue, or null while the library is not loaded.
///
/// All stashes share the queue. It outlives the modules that use stashes, as the work item of a
/// leaked stash may still be pending when its module is unloaded.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(ptr::null_mut());

/// Queues the work item of a stash if it is not pending.
pub(super) fn enqueue(cache: &Arc<Shared>) {
    let queue = QUEUE.load(Acquire);

    if queue.is_null() {
        return;
    }
    // SAFETY: `Filler` destroys the queue when the library is unloaded, after all modules that can
    // call this. This reference is used only during the call.
    let queue = unsafe { Queue::from_raw(queue) };
    // A pending work item handles all CPUs when it runs.
    let _ = queue.enqueue(cache.clone());
}

/// The owner of the work queue.
///
/// # Invariants
///
/// [`QUEUE`] points to `_queue`.
pub(crate) struct Filler {
    _queue: Workqueue,
}

impl Filler {
    /// Creates the work queue. Called once, when the library is loaded.
    ///
    /// Returns [`ENOMEM`].
    pub(crate) fn new() -> Result<Self> {
        // A per-CPU queue runs the work item on the CPU that found no page.
        let queue = Workqueue::for_library(c"kscale_page_stash", Flags::PERCPU, 0)?;

        QUEUE.store(queue.as_raw(), Release);
        // INVARIANT: Just stored.
        Ok(Self { _queue: queue })
    }
}

impl Drop for Filler {
    /// Clears [`QUEUE`]. The drop of `_queue` then waits for the last work items.
    fn drop(&mut self) {
        QUEUE.store(ptr::null_mut(), Relaxed);
    }
}
