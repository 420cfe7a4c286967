// SPDX-License-Identifier: GPL-2.0

//! Explores the interleavings of the credit limiters, whose algorithm is in
//! `rust/percpu_limiter/pool.rs`, and what other memory orders than those of the machine at hand
//! allow.
//!
//! Prints a line of KTAP for each check, and for each mutant: code that is wrong on purpose, for
//! which one of the checks must fail.
//!
//! Usage: kscale-loom [<mutant>], to see what happens to that one.

use std::{
    env,
    panic,
    process::ExitCode,
    sync::Mutex, //
};

mod atomic;
mod right;
#[allow(unused_parens)]
mod wrong;

/// Names, and the checks that must fail.
const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/mutants.rs"));

static MUTANT: Mutex<&str> = Mutex::new("");

/// Returns the name of the mutant that is tried.
fn mutant() -> &'static str {
    *MUTANT.lock().unwrap()
}

/// Returns whether a check fails for a mutant.
fn is_caught(mutant: &'static str, check: &str) -> bool {
    *MUTANT.lock().unwrap() = mutant;
    wrong::checks::CHECKS
        .iter()
        .filter(|(name, _)| *name == check)
        .any(|(_, run)| panic::catch_unwind(run).is_err())
}

fn main() -> ExitCode {
    if let Some(only) = env::args().nth(1) {
        for (mutant, check) in MUTANTS.iter().filter(|(mutant, _)| *mutant == only) {
            println!("{check}: {}", is_caught(mutant, check));
        }
        return ExitCode::SUCCESS;
    }
    let mut number = 0;
    let mut failed = false;
    let mut report = |ok: bool, name: &str| {
        number += 1;
        failed |= !ok;
        println!("{} {number} {name}", if ok { "ok" } else { "not ok" });
    };

    println!("1..{}", right::checks::CHECKS.len() + MUTANTS.len());
    for (name, check) in right::checks::CHECKS {
        report(panic::catch_unwind(check).is_ok(), name);
    }
    // They fail as they should, and need not say how.
    panic::set_hook(Box::new(|_| ()));
    for (mutant, check) in MUTANTS {
        report(
            is_caught(mutant, check),
            &format!("{mutant} is caught by {check}"),
        );
    }
    ExitCode::from(u8::from(failed))
}
