// SPDX-License-Identifier: GPL-2.0

//! Counts the cache lines that move between the CPUs of a model, from 1 to 1024 CPUs and several
//! nodes, and the locks that they take.
//!
//! The code under test is that of the library: this program compiles the source that the kernel
//! compiles, with atomics that record each access.
//!
//! Usage: lines limiter [quick] [<part of a row>], or lines iova_storm [quick], prints
//! `result <table> <row> <column> <number>`.
//!
//! Usage: lines check, checks the model, and prints a line of KTAP for each check.

use std::{
    env,
    panic,
    process::ExitCode, //
};

mod atomic;
mod checks;
#[path = "../../tests/host/iova/flush_queues.rs"]
mod flush_queues;
mod iova;
mod limiter;
mod machine;
mod percpu_counter;
#[path = "../../samples/iova_storm/recovery.rs"]
mod recovery;
#[path = "../../samples/iova_storm/results.rs"]
mod results;
mod spinlock;
mod turns;
#[path = "../../samples/iova_storm/workload.rs"]
mod workload;

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    let quick = words.iter().any(|word| word == "quick");
    let mut rest = words.iter().filter(|word| *word != "quick");
    let benchmark = rest.next().map(String::as_str);
    let only = rest.next().map_or("", String::as_str);

    match benchmark {
        Some("check") => return check(),
        Some("iova_storm") => iova::measure_all(quick),
        Some("limiter") => limiter::measure_all(quick, only),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

fn check() -> ExitCode {
    let mut failed = false;

    println!("1..{}", checks::CHECKS.len());
    for (number, (name, check)) in checks::CHECKS.iter().enumerate() {
        let ok = panic::catch_unwind(check).is_ok();
        failed |= !ok;
        println!("{} {} {name}", if ok { "ok" } else { "not ok" }, number + 1);
    }
    ExitCode::from(u8::from(failed))
}
