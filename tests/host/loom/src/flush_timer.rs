// SPDX-License-Identifier: GPL-2.0

//! The armed state of the timer of flush queues, in `rust/iommu/iova/flush_queue/armed.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/armed_mutants.rs"));
