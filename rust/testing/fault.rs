// SPDX-License-Identifier: GPL-2.0

//! Allocations that fail on purpose, for tests of constructors.
//!
//! Only in test builds, for kernels that can inject faults. The C part, which the kernel must have
//! loaded, is `tests/modules/fail_nth.c`. The guest's init switches off what `failslab` and
//! `fail_page_alloc` leave out by default.
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
    /// Lets allocation `nth` of the current task from now on fail; none if it is 0.
    fn kscale_set_fail_nth(nth: c_uint);

    /// Returns how many allocations of the current task there are to come until one fails.
    fn kscale_fail_nth() -> c_uint;
}

/// More allocations than any constructor makes.
const MAX_ALLOCATIONS: u32 = 10_000;

/// What came of the failures of [`each_failure()`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// How many failures made a call fail with [`ENOMEM`].
    pub refused: u32,
    /// How many no call minded: of what the kernel allocates for its own checks, say, or of large
    /// blocks where small ones do.
    pub tolerated: u32,
}

impl Failures {
    /// Returns whether `least` failures or more made a call fail, of which one may have been taken
    /// for an allocator's own.
    pub fn refused_at_least(&self, least: u32) -> bool {
        let all = self.refused.saturating_add(self.tolerated);

        all >= least && self.refused >= least.saturating_sub(1).max(1)
    }
}

/// What came of one call.
#[derive(PartialEq)]
enum Outcome {
    Refused,
    Tolerated,
    /// There were not as many allocations.
    NoneFailed,
}

/// Calls `f` with its first allocation failing, then with its second, and so on.
///
/// Ends with a call that all allocations of went well, and writes to the log how many failed. Counts
/// what allocates from slab caches, the page allocator or per-CPU memory, in the task itself; values
/// that `f` returns are dropped without failures.
///
/// Does each twice, and once more if the two came out differently: now and then an allocator fetches
/// memory for many allocations to come, which counts as one more, and another one would be left out.
/// A call before each, of which nothing fails, lets it have that memory.
///
/// Fails with [`EOPNOTSUPP`] if the kernel does not let all of these fail, with the error of `f` if
/// that is another than [`ENOMEM`] or no allocation failed, and with [`ELOOP`] if there is no end.
///
/// Context: process. Sleeps if `f` does.
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

/// As [`each_failure()`], but does each once: for what takes long.
///
/// Context: As [`each_failure()`].
pub fn each_failure_once<T>(mut f: impl FnMut() -> Result<T>) -> Result<Failures> {
    count_failures(|nth| call(&mut f, nth))
}

/// Counts what comes of `f` with one allocation failing after the other.
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

/// Checks that each kind of allocation fails when it is told to.
fn check() -> Result {
    let slab = fails(|| KBox::new(0_u64, GFP_KERNEL).is_err());
    let page = fails(|| Page::<0>::alloc(Gfp::KERNEL).is_err());
    let percpu = fails(|| {
        // SAFETY: Size and alignment are small powers of two.
        let pointer = unsafe { bindings::pcpu_alloc_noprof(8, 8, false, bindings::GFP_KERNEL) };
        // SAFETY: It was allocated just now, or is NULL.
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

/// Lets allocation `nth` of this task from now on fail.
fn set_fail_nth(nth: u32) {
    // SAFETY: It writes to a field of the current task that is for this.
    unsafe { kscale_set_fail_nth(nth) };
}

/// Lets no allocation of this task fail any more. Returns 0 if one has.
fn take_fail_nth() -> u32 {
    // SAFETY: It reads a field of the current task that only this task writes.
    let left = unsafe { kscale_fail_nth() };
    set_fail_nth(0);
    left
}
