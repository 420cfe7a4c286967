// SPDX-License-Identifier: GPL-2.0

//! Shrinkers, which have caches give memory back when it is short.
//!
//! A [`Shrinker`] is allocated, set up, and then registered with [`Callbacks`] that tell how many
//! objects there are to free, and free some. They are called until the [`Registration`] is dropped.
//! Use one for what can be made again, at a cost that is worth remembering it. For objects that are
//! freed in the order of their last use, of each memory cgroup and NUMA node apart, put them on a
//! [`ListLru`](crate::mm::list_lru::ListLru).
//!
//! # How much is asked for
//!
//! When memory is short, the kernel counts, takes a part of the sum that grows with its need, and has
//! that many objects scanned, a [batch](Shrinker::set_batch) at a time: `do_shrink_slab()` in
//! `mm/shrinker.c`. What it could not have scanned is deferred, and asked for later. With
//! `CONFIG_SHRINKER_DEBUG`, `/sys/kernel/debug/shrinker/<name>-<number>` has two files that call the
//! callbacks once: `count`, and `scan`.
//!
//! # Context
//!
//! Callbacks run in process context, in whatever task needs memory: on many CPUs at once, also for
//! the same node and cgroup. They may sleep, but what they wait for must not need memory:
//!
//! - They should not allocate. If they do, it is from the last reserves, as `PF_MEMALLOC` is set for
//!   the task, and is here also where C does not, in `drop_caches` and debugfs.
//! - They must not wait for a lock that anybody holds while he allocates memory with flags that let
//!   him reclaim some. Try to take it and [stop](Scan::STOP) if that fails, or allocate before.
//! - When [`may_fs()`](ScanControl::may_fs) or [`may_io()`](ScanControl::may_io) is false, the task
//!   may hold locks of a file system or a block device, and they must not wait for those.
//! - They must not make or drop registrations, caches or lists of any kind. A shrinker, or its
//!   registration, that is dropped there, even by way of other values,
//!   [stays](Registration#dropped-in-a-callback).
//!
//! Types do not prevent any of this. lockdep sees most of it.
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
