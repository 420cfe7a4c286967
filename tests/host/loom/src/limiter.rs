// SPDX-License-Identifier: GPL-2.0

//! The credit limiters, whose algorithm is in `rust/percpu/limiter/pool.rs`.

pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pool_mutants.rs"));
