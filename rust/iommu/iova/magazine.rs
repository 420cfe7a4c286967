// SPDX-License-Identifier: GPL-2.0

//! Magazine caches of ranges, with depots that one chooses the policy of.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`Cache`] does what [`CachedDomain`](super::CachedDomain) does, in Rust: each CPU has two
//! magazines of ranges for each size, from which it allocates and into which it frees without
//! meeting any other CPU. Full magazines that it has no room for go to a depot, and empty CPUs get
//! theirs from there. If there are none, ranges come from the tree of the domain, which all CPUs
//! search under one lock.
//!
//! What the depot keeps is up to its [`Policy`]. That matters where ranges are allocated on all CPUs
//! and freed on one, as the timer of a flush queue does: a depot that is too small then loses to the
//! tree every time what has to be searched for the next time, and from some number of CPUs on that
//! is most of it. `docs/iova_storm.md` has the numbers.
//!
//! | policy | the depot keeps | CPUs with none |
//! | --- | --- | --- |
//! | [`FixedDrop`](Policy::FixedDrop) | 32 magazines, and drops the next | allocate |
//! | [`FixedFlush`](Policy::FixedFlush) | 32 magazines, and flushes all CPUs at the next | allocate |
//! | [`Scaled`](Policy::Scaled) | two for each CPU | allocate |
//! | [`Trimmed`](Policy::Trimmed) | all, and loses one in 100 ms if it has more than online CPUs | allocate |
//! | [`Adaptive`](Policy::Adaptive) | all, and loses what nobody needed for 32 s | steal, then allocate |
//!
//! Memory is allocated and freed with no lock held, unlike in C, and ranges go to the tree so.
//! Policies are the library's own: those of another module would have to stay as long as a cache that
//! was forgotten.
//!
//! # CPUs that go
//!
//! What a CPU has goes to the tree when it goes offline, and it keeps nothing until it is back.
//!
//! # Virtual CPUs
//!
//! A [`VirtualCache`] has up to 4096 CPUs on any machine. It is the same code with another answer to
//! which CPU this is. `tests/host/iova` runs its core on the build machine.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../../samples/examples/iova_magazine.rs")]
//! ```

use kernel::{
    prelude::*,
    sync::atomic, //
};

mod array;
mod cache;
mod caches;
mod cpus;
mod depot;
mod policy;
mod rcache;
mod slot;
mod virtual_cache;

pub use cache::Cache;
pub use caches::{
    Counts,
    Usage, //
};
pub use policy::Policy;
pub use virtual_cache::VirtualCache;

/// Owns a magazine.
type MagazineBox = KBox<array::Magazine>;
