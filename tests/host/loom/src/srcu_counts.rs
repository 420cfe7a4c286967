// SPDX-License-Identifier: GPL-2.0

//! Counts of values on their way, which are in `rust/sync/srcu/pending/counts.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/counts_mutants.rs"));
