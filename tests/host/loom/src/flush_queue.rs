// SPDX-License-Identifier: GPL-2.0

//! The counters of flush queues, in `rust/iommu/iova/flush_queue/counters.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] =
    include!(concat!(env!("OUT_DIR"), "/counters_mutants.rs"));
