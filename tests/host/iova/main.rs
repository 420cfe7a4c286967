// SPDX-License-Identifier: GPL-2.0

//! Runs the magazine cache of `rust/iommu/iova/magazine`, the source that the kernel compiles, with
//! the workloads of `samples/iova_storm`: on virtual CPUs, and in threads.
//!
//! Prints a line of KTAP for each check.
//!
//! Usage: iova-storm [<name>=<value> ...], prints the results of each policy with that workload.

use std::{
    env,
    panic,
    process::ExitCode, //
};

mod flush_queues;
mod magazine;
#[path = "../../../samples/iova_storm/recovery.rs"]
mod recovery;
#[path = "../../../samples/iova_storm/results.rs"]
mod results;
#[path = "../../../samples/iova_storm/workload.rs"]
mod workload;

use magazine::{
    checks::CHECKS,
    storm, //
};
use workload::Workload;

fn main() -> ExitCode {
    let words: Vec<_> = env::args().skip(1).collect();
    if !words.is_empty() {
        let Some(load) = Workload::parse(words.join(" ").split_ascii_whitespace()) else {
            return ExitCode::FAILURE;
        };
        for (policy, results) in storm::run_all(&load) {
            println!("{policy:?}: {results:?}");
        }
        return ExitCode::SUCCESS;
    }

    let mut failed = false;
    println!("1..{}", CHECKS.len());
    for (number, (name, check)) in CHECKS.iter().enumerate() {
        let ok = panic::catch_unwind(check).is_ok();
        failed |= !ok;
        println!("{} {} {name}", if ok { "ok" } else { "not ok" }, number + 1);
    }
    ExitCode::from(u8::from(failed))
}
