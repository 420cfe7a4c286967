// SPDX-License-Identifier: GPL-2.0

//! The closed state of lists, in `rust/mm/list_lru/closed.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/closed_mutants.rs"));
