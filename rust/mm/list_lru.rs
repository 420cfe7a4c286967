// SPDX-License-Identifier: GPL-2.0

//! Lists of what may be freed, in the order of its last use.
//!
//! A [`ListLru`] has a list for each NUMA node and memory cgroup, which its [`Item`]s are on while
//! they may be freed. Use it behind a [shrinker](crate::mm::shrinker), for a cache of many objects; it is
//! what the kernel has its own caches of dentries and inodes on. For a few objects that are all
//! alike, a list of one's own will do.
//!
//! An item is on one list at most, that of the [`ListLru`] which it was allocated from, of the node
//! that its memory is on and the cgroup that it was charged to. It is counted: the list has a
//! reference for as long as the item is on it, others may have more, such as a table that it is found
//! by.
//!
//! # Freeing
//!
//! [`shrink_walk()`](ListLru::shrink_walk) asks about one item after the other, from the one that was
//! added or rotated longest ago, and takes some off the list. It returns these when it has unlocked
//! the list: nothing is freed before, and what is done with them then may take any lock. An item may
//! be found, and even added again, until whoever walked has removed it from where others find it.
//!
//! An item that is used need not be moved each time: note that in the item, and
//! [rotate](Status::Rotate) it if a walk finds the note.
//!
//! # Context
//!
//! Lists are locked with interrupts enabled, so nothing here may be called in interrupts.
//!
//! To stop a walk, or to unlock the list in it, is not supported, nor are items that are not in slab
//! memory.
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
