// SPDX-License-Identifier: GPL-2.0

//! Lists walked under RCU, whose items are reference counted while somebody looks at them.
//!
//! It is how `mm/shrinker.c` keeps shrinkers, but for a flag that keeps walks from coming to what is
//! being removed. A walk has a reference to the one value that it is at, and is in no critical
//! section then, so it may sleep. [`List::remove()`] waits for those who have a reference to that
//! value, and for nobody else; the memory is freed after an RCU grace period, without waiting.
//!
//! Use it where items are removed often or removing must be quick, though others sleep. A walk
//! writes to every item, twice: where there are many walkers, [`srcu::List`](crate::sync::srcu::List)
//! costs them less and who removes more.
//!
//! Who removes an item that it is at itself waits for itself, for ever. Two who remove what the
//! other one is at wait for each other. So nobody should remove anything while it is at a value of
//! the list, or hold a lock that a walk takes there: remember the entry, and remove it after the
//! walk. Lockdep reports all of this. Types cannot prevent it: any function that a walk calls may
//! have a reference to the list, and an entry.
//!
//! C: `shrink_slab()`, `shrinker_free()` in `mm/shrinker.c`.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/rcu_list.rs")]
//! ```

mod list;
mod node;
mod visits;
mod walk;

pub use list::{
    new_list,
    Entry,
    InsertError,
    List, //
};
pub use walk::Walk;
