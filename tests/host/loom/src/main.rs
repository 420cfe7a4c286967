// SPDX-License-Identifier: GPL-2.0

//! Explores the interleavings of the kernel's lock-free code, with all memory orders that the
//! memory model allows: the credit limiters, the counters and the timer of flush queues, the slots
//! of the page stash, the list of bios of a `SortedSubmitQueue`, the pointers and counts of SRCU,
//! and lists that are dropped.
//!
//! Prints a line of KTAP for each check, and for each mutant: code with a defect, for which one of
//! the checks must fail. A list of pages from a patch that was not merged must fail with its known
//! defects.
//!
//! Usage: kscale-loom [<mutant>], shows the failure of that mutant.

use std::{
    env,
    panic,
    process::ExitCode,
    sync::Mutex, //
};

mod atomic;
mod flush_queue;
mod flush_timer;
mod hint;
mod limiter;
mod list_lru;
mod page_stash;
mod srcu_counts;
mod srcu_pointer;
mod submit_queue;

/// The names and functions of checks.
type Checks = &'static [(&'static str, fn())];

/// A module with its checks and mutants.
struct Subject {
    right: Checks,
    wrong: Checks,
    mutants: &'static [(&'static str, &'static str)],
}

const SUBJECTS: [Subject; 8] = [
    Subject {
        right: limiter::right::checks::CHECKS,
        wrong: limiter::wrong::checks::CHECKS,
        mutants: limiter::MUTANTS,
    },
    Subject {
        right: flush_queue::right::checks::CHECKS,
        wrong: flush_queue::wrong::checks::CHECKS,
        mutants: flush_queue::MUTANTS,
    },
    Subject {
        right: flush_timer::right::checks::CHECKS,
        wrong: flush_timer::wrong::checks::CHECKS,
        mutants: flush_timer::MUTANTS,
    },
    Subject {
        right: page_stash::right::checks::CHECKS,
        wrong: page_stash::wrong::checks::CHECKS,
        mutants: page_stash::MUTANTS,
    },
    Subject {
        right: submit_queue::right::checks::CHECKS,
        wrong: submit_queue::wrong::checks::CHECKS,
        mutants: submit_queue::MUTANTS,
    },
    Subject {
        right: list_lru::right::checks::CHECKS,
        wrong: list_lru::wrong::checks::CHECKS,
        mutants: list_lru::MUTANTS,
    },
    Subject {
        right: srcu_counts::right::checks::CHECKS,
        wrong: srcu_counts::wrong::checks::CHECKS,
        mutants: srcu_counts::MUTANTS,
    },
    Subject {
        right: srcu_pointer::right::checks::CHECKS,
        wrong: srcu_pointer::wrong::checks::CHECKS,
        mutants: srcu_pointer::MUTANTS,
    },
];

static MUTANT: Mutex<&str> = Mutex::new("");

/// Returns the name of the current mutant.
fn mutant() -> &'static str {
    *MUTANT.lock().unwrap()
}

/// Runs a check, and returns the reason if it fails.
fn failure(checks: Checks, check: &str) -> Option<String> {
    let (_, run) = checks.iter().find(|(name, _)| *name == check).unwrap();
    let reason = panic::catch_unwind(run).err()?;
    let text = reason.downcast_ref::<String>().cloned();

    text.or_else(|| reason.downcast_ref::<&str>().map(|text| text.to_string()))
        .or_else(|| Some(String::new()))
}

/// Returns the reason if a check fails for a mutant.
fn failure_of_mutant(subject: &Subject, mutant: &'static str, check: &str) -> Option<String> {
    *MUTANT.lock().unwrap() = mutant;
    failure(subject.wrong, check)
}

fn show(only: &str) {
    for subject in &SUBJECTS {
        for (mutant, check) in subject.mutants.iter().filter(|(mutant, _)| *mutant == only) {
            println!("{check}: {:?}", failure_of_mutant(subject, mutant, check));
        }
    }
}

fn main() -> ExitCode {
    if let Some(only) = env::args().nth(1) {
        show(&only);
        return ExitCode::SUCCESS;
    }
    let mut number = 0;
    let mut failed = false;
    let mut report = |ok: bool, name: &str| {
        number += 1;
        failed |= !ok;
        println!("{} {number} {name}", if ok { "ok" } else { "not ok" });
    };

    let of_subjects = SUBJECTS.iter().map(|it| it.right.len() + it.mutants.len());
    let of_patch = page_stash::HOLDS.len() + page_stash::DEFECTS.len();
    println!("1..{}", of_subjects.sum::<usize>() + of_patch);
    for (name, check) in SUBJECTS.iter().flat_map(|subject| subject.right) {
        report(panic::catch_unwind(check).is_ok(), name);
    }
    for check in page_stash::HOLDS {
        let reason = failure(page_stash::patch::checks::CHECKS, check);
        report(reason.is_none(), &format!("{check} holds for the patch"));
    }
    // These checks are expected to fail, so do not print their panics.
    panic::set_hook(Box::new(|_| ()));
    for (defect, check, message) in page_stash::DEFECTS {
        let reason = failure(page_stash::patch::checks::CHECKS, check).unwrap_or_default();
        report(
            reason.contains(message),
            &format!("{defect} of the patch is found by {check}"),
        );
    }
    for subject in &SUBJECTS {
        for (mutant, check) in subject.mutants {
            report(
                failure_of_mutant(subject, mutant, check).is_some(),
                &format!("{mutant} is caught by {check}"),
            );
        }
    }
    ExitCode::from(u8::from(failed))
}
