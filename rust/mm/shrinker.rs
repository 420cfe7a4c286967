// SPDX-License-Identifier: GPL-2.0

//! Shrinkers, which free the objects of caches under memory pressure.
//!
//! A [`Shrinker`] is allocated, configured, and then registered with [`Callbacks`] that count the
//! freeable objects and free some of them. The kernel calls them until the [`Registration`] is
//! dropped. Use a shrinker for objects that can be created again, and are worth caching. Use a
//! [`ListLru`](crate::mm::list_lru::ListLru) for objects that are freed in LRU order, separately
//! for each memory cgroup and NUMA node.
//!
//! # Number of objects
//!
//! Under memory pressure, the kernel counts the objects. It computes a share of them that grows
//! with the pressure, and scans that many objects in [batches](Shrinker::set_batch): see
//! `do_shrink_slab()` in `mm/shrinker.c`. Objects that it could not scan are deferred to a later
//! call. With `CONFIG_SHRINKER_DEBUG`, `/sys/kernel/debug/shrinker/<name>-<number>` contains the
//! files `count` and `scan`, which call the callbacks once.
//!
//! # Context
//!
//! Callbacks run in process context in the task that needs memory. They run on many CPUs at once,
//! also for the same node and cgroup. They may sleep, but must not wait for a task that needs
//! memory:
//!
//! - Callbacks should not allocate. An allocation uses the emergency reserves, because
//!   `PF_MEMALLOC` is set for the task. The library also sets it for `drop_caches` and debugfs,
//!   where C does not.
//! - Callbacks must not wait for a lock that another task may hold while it allocates memory with
//!   direct reclaim. Try to take the lock and return [`Scan::STOP`] if that fails, or allocate
//!   before taking the lock.
//! - When [`may_fs()`](ScanControl::may_fs) or [`may_io()`](ScanControl::may_io) is false, the task
//!   may hold locks of a file system or a block device. Callbacks must not wait for these locks.
//! - Callbacks must not create or drop registrations, caches or lists of any kind. A shrinker or a
//!   registration that is dropped in a callback, also as part of another value,
//!   [leaks](Registration#dropped-in-a-callback).
//!
//! The types do not enforce these rules. lockdep detects most violations.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/shrinker.rs")]
//! ```
//!
//! C header: [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h)

mod builder;
mod callbacks;
mod counts;
mod registration;
mod shrink_control;

pub use builder::{
    Flags,
    Shrinker, //
};
#[cfg(kscale_kunit)]
pub(crate) use callbacks::as_in_reclaim;
pub use callbacks::Callbacks;
pub use counts::{
    Count,
    Scan, //
};
pub use registration::Registration;
pub use shrink_control::{
    ScanControl,
    ShrinkControl, //
};
