// SPDX-License-Identifier: GPL-2.0

//! Tools for tests: failures on purpose, leaks, the state of tasks, jobs of other tasks, and values
//! passed between modules.
//!
//! They are in test builds only. [`failpoint`] lets a single call fail, and `fault` any allocation.

pub mod failpoint;
#[cfg(kscale_faults)]
pub mod fault;
pub mod handover;
pub mod leak;
pub(crate) mod lockdep;
pub mod task;
