// SPDX-License-Identifier: GPL-2.0

//! The counts of values that wait to be freed, in `rust/sync/srcu/pending/counts.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/counts_mutants.rs"));
