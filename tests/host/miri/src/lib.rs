// SPDX-License-Identifier: GPL-2.0

//! Runs code of the kernel with real threads and real memory: the checks that `tests/host/loom`
//! runs in every interleaving, and the KUnit tests of files with few dependencies on the kernel.
//!
//! Under Miri, a test fails on a data race, undefined behaviour or a memory leak. Without Miri, the
//! tests themselves are checked.

#![cfg(test)]

#[path = "../../loom/src/atomic.rs"]
mod atomic;
#[path = "../../loom/src/flush_queue/right.rs"]
mod flush_queue;
#[path = "../../loom/src/flush_timer/right.rs"]
mod flush_timer;
#[path = "../../loom/src/hint.rs"]
mod hint;
#[path = "../../loom/src/limiter/right.rs"]
mod limiter;
mod lists;
#[path = "../../loom/src/page_stash/page.rs"]
mod page;
#[path = "../../loom/src/page_stash/right.rs"]
mod page_stash;
mod rings;
mod srcu;
#[path = "../../loom/src/submit_queue/right.rs"]
mod submit_queue;

/// Checks of `tests/host/loom`.
#[test]
fn checks_of_interleavings_hold() {
    let checks = [
        limiter::checks::CHECKS,
        flush_queue::checks::CHECKS,
        flush_timer::checks::CHECKS,
        page_stash::checks::CHECKS,
        submit_queue::checks::CHECKS,
    ];
    for (name, check) in checks.concat() {
        println!("{name}");
        check();
    }
}
