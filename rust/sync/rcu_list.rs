// SPDX-License-Identifier: GPL-2.0

//! Lists walked under RCU, with a reference count on the current item of each walk.
//!
//! `mm/shrinker.c` keeps shrinkers in the same way. In addition, a flag makes walks skip an item
//! that is being removed. A walk holds a reference to its current value outside of any RCU
//! read-side critical section, so the walker may sleep. [`List::remove()`] waits only for walks
//! that hold a reference to the removed value. The memory is freed after an RCU grace period,
//! without waiting.
//!
//! Use it where items are removed often, or where a removal must not wait for unrelated readers. A
//! walk writes twice to every item. For many concurrent walks
//! [`srcu::List`](crate::sync::srcu::List) is cheaper, but its removals cost more.
//!
//! A walker that removes its current item deadlocks. So do two walkers that each remove the other's
//! current item. So do not remove an item during a walk, nor while holding a lock that a walk
//! takes: remember the entry, and remove it after the walk. Lockdep reports all these deadlocks.
//! Types do not prevent them: any function that a walk calls may have a reference to the list, and
//! an entry.
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
