// SPDX-License-Identifier: GPL-2.0

//! The address of the current node, in `rust/sync/srcu/pointer/current.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/current_mutants.rs"));
