// SPDX-License-Identifier: GPL-2.0

//! Allocations that fail on purpose, to test constructors.
//!
//! Only in test builds, for kernels with fault injection. The C part is `tests/modules/fail_nth.c`,
//! which must be loaded. The init of the guest clears the filters that `failslab` and
//! `fail_page_alloc` set by default.
//!
//! Documentation: [`Documentation/fault-injection`](srctree/Documentation/fault-injection/)

use kernel::{
    ffi::c_uint,
    prelude::*, //
};

use crate::{
    bindings,
    mm::{
        gfp::Gfp,
        page::Page, //
    }, //
};

extern "C" {
    /// Makes the `nth` next allocation of the current task fail, or none if `nth` is 0.
    fn kscale_set_fail_nth(nth: c_uint);

    /// Returns the number of allocations of the current task until one fails.
    fn kscale_fail_nth() -> c_uint;
}

/// More allocations than any constructor makes.
const MAX_ALLOCATIONS: u32 = 10_000;

/// The results of the failures that [`each_failure()`] injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// The number of failures that made the call fail with [`ENOMEM`].
    pub refused: u32,
    /// The number of failures that no call returned. For example, the kernel's own debug code
    /// allocated, or small blocks replaced a large one.
    pub tolerated: u32,
}

impl Failures {
    /// Returns whether at least `least` failures made a call fail.
    ///
    /// Allows for one that was counted as tolerated instead, as an internal one of an allocator.
    pub fn refused_at_least(&self, least: u32) -> bool {
        let all = self.refused.saturating_add(self.tolerated);

        all >= least && self.refused >= least.saturating_sub(1).max(1)
    }
}

/// The result of one call.
#[derive(PartialEq)]
enum Outcome {
    Refused,
    Tolerated,
    /// The call made fewer allocations.
    NoneFailed,
}

/// Calls `f` with its first allocation failing, then with its second, and so on.
///
/// Ends with a call in which all allocations succeed, and prints the counts. Allocations from slab
/// caches, the page allocator and the per-CPU allocator count, if the task itself makes them.
/// Values that `f` returns are dropped without failures.
///
/// Runs each step twice, and once more if the two results differ. Now and then an allocator fetches
/// memory for many later allocations, which counts as one more allocation and would hide another
/// one. Before each call with a failure there is one without, so that the allocator has that
/// memory.
///
/// Fails with [`EOPNOTSUPP`] if the kernel does not inject failures of all these kinds. Fails with
/// the error of `f` if it is not [`ENOMEM`], or no allocation failed. Fails with [`ELOOP`] if there
/// is no end.
///
/// Context: Process context. May sleep if `f` sleeps.
pub fn each_failure<T>(mut f: impl FnMut() -> Result<T>) -> Result<Failures> {
    count_failures(|nth| {
        let mut outcome = || {
            drop(f()?);
            call(&mut f, nth)
        };
        let (first, second) = (outcome()?, outcome()?);
        if first == second {
            Ok(first)
        } else {
            outcome()
        }
    })
}

/// As [`each_failure()`], but runs each step once. For slow calls.
///
/// Context: As [`each_failure()`].
pub fn each_failure_once<T>(mut f: impl FnMut() -> Result<T>) -> Result<Failures> {
    count_failures(|nth| call(&mut f, nth))
}

/// Counts the results of `f` with each allocation failing in turn.
fn count_failures(mut f: impl FnMut(u32) -> Result<Outcome>) -> Result<Failures> {
    let mut failures = Failures {
        refused: 0,
        tolerated: 0,
    };

    check()?;
    for nth in 1..MAX_ALLOCATIONS {
        match f(nth)? {
            Outcome::Refused => failures.refused += 1,
            Outcome::Tolerated => failures.tolerated += 1,
            Outcome::NoneFailed => {
                pr_info!("{failures:?}\n");
                return Ok(failures);
            }
        }
    }
    Err(ELOOP)
}

/// Calls `f` with allocation `nth` failing.
fn call<T>(f: &mut impl FnMut() -> Result<T>, nth: u32) -> Result<Outcome> {
    set_fail_nth(nth);
    let result = f();
    let one_failed = take_fail_nth() == 0;

    match result.map(drop) {
        Ok(()) if one_failed => Ok(Outcome::Tolerated),
        Ok(()) => Ok(Outcome::NoneFailed),
        Err(error) if one_failed && error == ENOMEM => Ok(Outcome::Refused),
        Err(error) => {
            pr_err!("with allocation {nth} failing: {error:?}\n");
            Err(error)
        }
    }
}

/// Checks that injected failures work for each kind of allocation.
fn check() -> Result {
    let slab = fails(|| KBox::new(0_u64, GFP_KERNEL).is_err());
    let page = fails(|| Page::<0>::alloc(Gfp::KERNEL).is_err());
    let percpu = fails(|| {
        // SAFETY: Size and alignment are small powers of two.
        let pointer = unsafe { bindings::pcpu_alloc_noprof(8, 8, false, bindings::GFP_KERNEL) };
        // SAFETY: It was allocated above, or is NULL.
        unsafe { bindings::free_percpu(pointer) };
        pointer.is_null()
    });

    if slab && page && percpu {
        Ok(())
    } else {
        pr_err!("no fault injection: slab {slab}, page {page}, percpu {percpu}\n");
        Err(EOPNOTSUPP)
    }
}

/// Calls `f` with its first allocation failing.
fn fails(f: impl FnOnce() -> bool) -> bool {
    set_fail_nth(1);
    let result = f();
    take_fail_nth();
    result
}

/// Makes the `nth` next allocation of this task fail.
fn set_fail_nth(nth: u32) {
    // SAFETY: It writes a field of the current task that only fault injection uses.
    unsafe { kscale_set_fail_nth(nth) };
}

/// Ends fault injection for this task. Returns 0 if an allocation has failed.
fn take_fail_nth() -> u32 {
    // SAFETY: It reads a field of the current task that only this task writes.
    let left = unsafe { kscale_fail_nth() };
    set_fail_nth(0);
    left
}
