// SPDX-License-Identifier: GPL-2.0

//! What tests of values that are leaked, or dropped in any order, need.
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

/// Leaks a value, as [`core::mem::forget()`] does, and lets kmemleak know.
///
/// Nothing that the value refers to is reported as a leak.
///
/// Fails with [`ENOMEM`], and drops the value then.
///
/// Context: process. May sleep.
pub fn forget<T>(value: T) -> Result {
    let value: *mut T = KBox::leak(KBox::new(value, GFP_KERNEL)?);

    if size_of::<T>() != 0 {
        // SAFETY: `value` is the start of an allocation of the slab allocator that is never freed.
        unsafe { bindings::kmemleak_not_leak(value.cast()) };
    }
    Ok(())
}

/// Calls `work` with each number below `count`, in tasks of their own.
///
/// Fails with [`EINVAL`] if it does for any number, and says in the log for which, or with
/// [`ENOMEM`].
///
/// Not generic, as lockdep takes the lock class of a work item that two modules have code for as two.
///
/// Context: process. Sleeps until all have returned.
pub fn at_once(count: usize, work: fn(usize) -> Result) -> Result {
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
