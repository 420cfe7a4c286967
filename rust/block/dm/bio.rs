// SPDX-License-Identifier: GPL-2.0

//! The bios of a target, from `map` to completion.
//!
//! [`per_bio`] has the data that device mapper allocates with each bio. Each of the other modules
//! has the type of a bio in one stage of its life.

pub(super) mod bounce;
pub(super) mod clone;
pub(super) mod end_io;
mod getters;
pub(super) mod head;
pub(super) mod integrity;
pub(super) mod list;
pub(super) mod map;
pub(super) mod owned;
pub(super) mod parent;
pub(super) mod per_bio;
mod raw;
pub(super) mod running;
