// SPDX-License-Identifier: GPL-2.0

//! The cache of a patch that was not merged, with the same checks.

use super::page;

#[path = "checks.rs"]
pub(crate) mod checks;
mod slots;
