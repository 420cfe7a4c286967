// SPDX-License-Identifier: GPL-2.0

//! The list of bios for the worker of a `SortedSubmitQueue`, in `rust/block/dm/submit/llist.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/llist_mutants.rs"));
