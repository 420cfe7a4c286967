// SPDX-License-Identifier: GPL-2.0

//! The guarantees of the counts of values that wait to be freed, in every interleaving of a few
//! calls.
//!
//! Included next to each `counts` module: the right one, and the mutants.

use super::counts::Counts;

use loom::{
    cell::UnsafeCell,
    thread, //
};

use std::sync::Arc;

/// Two destructors, and the code of their module.
struct Module {
    first: Counts,
    second: Counts,
    /// Read when the code runs, written when it is freed.
    code: UnsafeCell<()>,
}

// SAFETY: The checker detects concurrent accesses to the code.
unsafe impl Sync for Module {}

impl Module {
    /// Creates a module with one value that waits to be freed, for the first destructor.
    fn new() -> Arc<Self> {
        let this = Self {
            first: Counts::new(),
            second: Counts::new(),
            code: UnsafeCell::new(()),
        };
        this.first.begin();
        Arc::new(this)
    }

    fn run_code(&self) {
        self.code.with(|_| ());
    }

    fn left(&self) -> u64 {
        Counts::left(|| [&self.first, &self.second].into_iter())
    }

    /// Frees the code if no value is left, and returns whether it did.
    fn is_gone(&self) -> bool {
        let is_gone = self.left() == 0;
        if is_gone {
            self.code.with_mut(|_| ());
        }
        is_gone
    }
}

/// Calls `f` with a module while another thread runs `other`.
fn race(other: fn(&Module), f: fn(&Module)) {
    loom::model(move || {
        let module = Module::new();
        let theirs = module.clone();
        let thread = thread::spawn(move || other(&theirs));
        f(&module);
        thread.join().unwrap();
    });
}

/// The code is not freed while destructors may still run it.
fn code_stays_while_it_runs() {
    fn destroy(module: &Module) {
        module.run_code();
        module.first.end();
    }
    race(destroy, |module| {
        module.is_gone();
    });
}

/// A destructor defers the freeing of another value.
fn what_a_destructor_begins_is_waited_for() {
    fn destroy(module: &Module) {
        module.second.begin();
        module.first.end();
        module.run_code();
        module.second.end();
    }
    race(destroy, |module| {
        module.is_gone();
    });
}

fn all_that_ends_is_counted() {
    fn destroy(module: &Module) {
        assert_eq!(module.left(), 1, "one is left");
        module.second.begin();
        assert_eq!(module.left(), 2, "two are left");
        module.first.end();
        module.second.end();
    }
    loom::model(|| {
        let module = Module::new();
        destroy(&module);
        assert!(module.is_gone(), "none is left");
    });
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("code_stays_while_it_runs", code_stays_while_it_runs),
    (
        "what_a_destructor_begins_is_waited_for",
        what_a_destructor_begins_is_waited_for,
    ),
    ("all_that_ends_is_counted", all_that_ends_is_counted),
];
