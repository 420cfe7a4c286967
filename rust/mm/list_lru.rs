// SPDX-License-Identifier: GPL-2.0

//! LRU lists of freeable objects.
//!
//! A [`ListLru`] has a list for each NUMA node and memory cgroup. [`Item`]s are on a list while
//! they may be freed. Use it with a [shrinker](crate::mm::shrinker) for a cache of many objects.
//! The kernel uses `struct list_lru` for its dentry and inode caches. A plain list is enough for a
//! few equivalent objects.
//!
//! An item is on at most one list: the list of the [`ListLru`] that allocated it, for the node of
//! its memory and the cgroup that is charged for it. An item has a reference count. A list holds a
//! reference to each of its items, and other users may hold more, such as a lookup table.
//!
//! # Freeing
//!
//! [`shrink_walk()`](ListLru::shrink_walk) calls a function for one item after the other, starting
//! with the item that was added or rotated the longest time ago, and isolates some items. It
//! returns the isolated items after it has unlocked the list. No item is freed before that, so the
//! caller may take any lock to free the items. Other users may find an isolated item, and even add
//! it again, until the caller has removed the item from their lookup table.
//!
//! An item need not be moved on each use: set a flag in the item, and [rotate](Status::Rotate) the
//! item if a walk finds the flag set.
//!
//! # Context
//!
//! List locks are taken with interrupts enabled, so these functions must not be called in
//! interrupts.
//!
//! Stopping a walk, unlocking the list during a walk, and items that are not in slab memory are not
//! supported.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/list_lru.rs")]
//! ```
//!
//! C header: [`include/linux/list_lru.h`](srctree/include/linux/list_lru.h)

use kernel::sync::{
    atomic,
    barrier, //
};

mod closed;
mod item;
mod lru;
mod walk;

pub use item::{
    Item,
    NewItemError, //
};
pub use lru::ListLru;
pub use walk::{
    Isolated,
    Status, //
};
