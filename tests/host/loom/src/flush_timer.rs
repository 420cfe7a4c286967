// SPDX-License-Identifier: GPL-2.0

//! The timer of flush queues, of which `rust/iommu/iova/flush_queue/armed.rs` knows whether it is armed.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/armed_mutants.rs"));
