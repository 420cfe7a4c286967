// SPDX-License-Identifier: GPL-2.0

//! Which mutant this run is: only in the copy that `make mutants` builds.

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use crate::module::param::Param;

crate::writable_param! {
    /// The number of the mutant; 0 is none, and [`RECORD`] says what is reached.
    static MUTANT: Param = ("mutant", 0, "The mutant that this is");
}

/// More than there are mutants.
const COUNT: usize = 0;

/// Says in the kernel's log which mutants' code runs.
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
