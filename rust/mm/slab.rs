// SPDX-License-Identifier: GPL-2.0

//! Slab caches for values of one type.
//!
//! A [`Cache`] allocates memory for values of one type, packed as densely as their size allows. Use
//! a cache for many short-lived values, and `KBox` for a few values: a cache costs some pages, and
//! dropping it waits for every CPU.
//!
//! An allocation returns owned memory without a value: see [`boxed`](crate::mm::boxed).
//!
//! Constructors, memory accounting and `SLAB_TYPESAFE_BY_RCU` are not supported.
//!
//! As with `KBox`, a value may be copied to and from user space. So `CONFIG_HARDENED_USERCOPY`
//! merges a cache with no other cache.
//!
//! # Forgotten objects
//!
//! Safe code may forget a value. Its memory stays allocated, so a pinned value stays valid.
//! Dropping the cache of a forgotten value does not destroy the cache, and prints an error to the
//! log. A cache counts its objects per CPU for this purpose. This costs two instructions for each
//! allocation and each free, which C does not need. A cache that was not destroyed, or that was
//! forgotten itself, does not refer to its module: its name is a copy, and it has no constructor.
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
