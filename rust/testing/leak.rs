// SPDX-License-Identifier: GPL-2.0

//! Tools for tests that leak values, or drop them in any order.
//!
//! Only in test builds.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Completion, //
    },
    workqueue, //
};

use crate::bindings;

/// Leaks a value, as [`core::mem::forget()`] does, and marks it as no leak for kmemleak.
///
/// kmemleak reports nothing that the value refers to.
///
/// Fails with [`ENOMEM`], and drops the value.
///
/// Context: Process context. May sleep.
pub fn forget<T>(value: T) -> Result {
    let value: *mut T = KBox::leak(KBox::new(value, GFP_KERNEL)?);

    if size_of::<T>() != 0 {
        // SAFETY: `value` is the start of an allocation of the slab allocator that is never freed.
        unsafe { bindings::kmemleak_not_leak(value.cast()) };
    }
    Ok(())
}

/// Calls `work` with each number below `count`, each in a task of its own.
///
/// Fails with [`EINVAL`] if a call fails, and prints its number and error. Fails with [`ENOMEM`] if
/// memory is short.
///
/// Not generic: if two modules had copies of the code, lockdep would see two lock classes for the
/// work items.
///
/// Context: Process context. May sleep. Waits for all calls.
pub fn run_concurrently(count: usize, work: fn(usize) -> Result) -> Result {
    let failures = Arc::new(Atomic::new(0_usize), GFP_KERNEL)?;
    let mut started = KVec::new();

    let result = (0..count).try_for_each(|number| {
        let failures = failures.clone();
        let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
        let theirs = finished.clone();
        started.reserve(1, GFP_KERNEL)?;
        workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
            if let Err(error) = work(number) {
                pr_err!("number {number}: {error:?}\n");
                failures.fetch_add(1, Relaxed);
            }
            drop(failures);
            theirs.complete_all();
        })?;
        Ok(started.push(finished, GFP_KERNEL)?)
    });
    for finished in &started {
        finished.wait_for_completion();
    }
    match failures.load(Relaxed) {
        0 => result,
        _ => Err(EINVAL),
    }
}
