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
        Arc, //
    }, //
};

use crate::bindings;

use super::task::run_jobs;

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

    let result = run_jobs(count, |number| {
        let failures = failures.clone();
        Ok(move || {
            if let Err(error) = work(number) {
                pr_err!("number {number}: {error:?}\n");
                failures.add(1, Relaxed);
            }
        })
    });
    match failures.load(Relaxed) {
        0 => result,
        _ => Err(EINVAL),
    }
}
