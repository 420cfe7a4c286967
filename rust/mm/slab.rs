// SPDX-License-Identifier: GPL-2.0

//! Slab caches of one type.
//!
//! A [`Cache`] has memory for values of one type, packed as tightly as their size allows. Use one
//! for many values that come and go. Use `KBox` for a few: a cache costs some pages, and a wait for
//! every CPU when it goes.
//!
//! Memory is owned before there is a value in it: see [`boxed`](crate::mm::boxed).
//!
//! Constructors, memory accounting, `SLAB_TYPESAFE_BY_RCU` and copies to user space are not
//! supported.
//!
//! # What is left behind
//!
//! Safe code may forget a value. Its memory stays as it is, so what is pinned there stays valid,
//! and its cache is not destroyed when it is dropped: it is left as it is, and the log says so. To
//! know, a cache counts its objects per CPU: two instructions for each, which C does not need. A
//! cache that is left, or forgotten itself, refers to no module: its name is a copy, and it has no
//! constructor.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/slab.rs")]
//! ```
//!
//! C header: [`include/linux/slab.h`](srctree/include/linux/slab.h)

mod cache;
mod memory;

pub use cache::Cache;
pub use memory::{
    CacheRef,
    Memory, //
};
