// SPDX-License-Identifier: GPL-2.0

//! The work queue on which caches are filled.

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

/// The queue, null before the library is loaded.
///
/// There is one for all caches, that outlives them: one that was leaked may have work to do when
/// its module has gone.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(ptr::null_mut());

/// Has the work item of a cache run, unless it is about to.
pub(super) fn enqueue(cache: &Arc<Shared>) {
    let queue = QUEUE.load(Acquire);

    if queue.is_null() {
        return;
    }
    // SAFETY: `Filler` destroys it when the library goes, after all modules that can call this, and
    // this reference is not used any longer than the call.
    let queue = unsafe { Queue::from_raw(queue) };
    // If it is queued already, it looks at all CPUs when it runs.
    let _ = queue.enqueue(cache.clone());
}

/// The queue, while it lives.
///
/// # Invariants
///
/// [`QUEUE`] is `_queue`.
pub(crate) struct Filler {
    _queue: Workqueue,
}

impl Filler {
    /// Creates the queue. To be called once, when the library is loaded.
    ///
    /// Fails with [`ENOMEM`].
    pub(crate) fn new() -> Result<Self> {
        // On the CPU that found no page, which is to be filled.
        let queue = Workqueue::for_library(c"kscale_page_stash", Flags::PERCPU, 0)?;

        QUEUE.store(queue.as_raw(), Release);
        // INVARIANT: Just stored.
        Ok(Self { _queue: queue })
    }
}

impl Drop for Filler {
    /// Then the queue goes, which waits for the last work items.
    fn drop(&mut self) {
        QUEUE.store(ptr::null_mut(), Relaxed);
    }
}
