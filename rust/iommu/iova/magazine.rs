// SPDX-License-Identifier: GPL-2.0

//! Magazine caches of ranges, whose depots have a selectable policy.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`Cache`] does what [`CachedDomain`](super::CachedDomain) does, in Rust: each CPU has two
//! magazines of ranges for each size. It allocates from them and frees into them without contention
//! with other CPUs. Full magazines for which a CPU has no room go to a depot, and CPUs without
//! ranges take magazines from the depot. If the depot is empty, ranges come from the tree of the
//! domain, which all CPUs search under one lock.
//!
//! The [`Policy`] decides what the depot keeps. It matters where all CPUs allocate ranges and one
//! CPU frees them, as the timer of a flush queue does. A depot that is too small then returns
//! ranges to the tree all the time, and the next allocations have to search for them. From some
//! number of CPUs on, this search takes most of the time. `docs/iova_storm.md` has the numbers.
//!
//! | policy | the depot keeps | a CPU keeps |
//! | --- | --- | --- |
//! | [`FixedDrop`](Policy::FixedDrop) | 32 magazines, and drops further ones | up to two magazines |
//! | [`FixedFlush`](Policy::FixedFlush) | 32 magazines, and flushes all CPUs if full | the same |
//! | [`Scaled`](Policy::Scaled) | two for each CPU | the same |
//! | [`Trimmed`](Policy::Trimmed) | all, frees one per 100 ms above the online CPUs | the same |
//! | [`Adaptive`](Policy::Adaptive) | all, frees those unused for 32 s | what it used lately |
//!
//! Memory is allocated and freed with no lock held, unlike in C. Ranges are also freed into the
//! tree with no lock held. Policies are part of the library: a policy of another module would have
//! to stay loaded as long as a leaked cache.
//!
//! # CPU hotplug
//!
//! When a CPU goes offline, its ranges go to the tree, and it caches nothing until it is online
//! again.
//!
//! # Virtual CPUs
//!
//! A [`VirtualCache`] has up to 4096 CPUs on any machine. It runs the same code with another
//! implementation of the current CPU. `tests/host/iova` runs the core on the build machine.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../../samples/examples/iova_magazine.rs")]
//! ```

use kernel::prelude::*;

mod array;
mod cache;
mod caches;
mod cpu_rcache;
mod cpus;
mod depot;
mod policy;
mod rcache;
mod virtual_cache;

pub use cache::Cache;
pub use caches::{
    Counts,
    Usage, //
};
pub use policy::Policy;
pub use virtual_cache::VirtualCache;

/// An owned magazine.
type MagazineBox = KBox<array::Magazine>;
