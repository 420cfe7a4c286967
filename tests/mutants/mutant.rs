// SPDX-License-Identifier: GPL-2.0

//! Selects the active mutant. Only in the copy that `make mutants` builds.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::module::param::Param;

crate::writable_param! {
    /// The number of the active mutant. 0: none. [`RECORD`]: record the mutants that are reached.
    static MUTANT: Param = ("mutant", 0, "The mutant that this is");
}

/// The size of `REACHED`, larger than the number of mutants.
const COUNT: usize = 0;

/// Logs the mutants whose code runs.
const RECORD: u32 = u32::MAX;

static REACHED: [Atomic<u32>; COUNT] = [const { Atomic::new(0) }; COUNT];

/// Returns whether this run is of mutant `number`.
#[inline]
pub fn is(number: u32) -> bool {
    let chosen = MUTANT.value();

    if chosen == RECORD {
        record(number);
    }
    chosen == number
}

#[inline(never)]
fn record(number: u32) {
    if let Some(reached) = REACHED.get(number as usize) {
        if reached.load(Relaxed) == 0 {
            reached.store(1, Relaxed);
            pr_info!("reached {number}\n");
        }
    }
}
