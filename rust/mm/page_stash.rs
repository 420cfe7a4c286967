// SPDX-License-Identifier: GPL-2.0

//! Per-CPU stashes of free pages for callers that cannot wait for the page allocator.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`PageStash`] keeps a few pages for each CPU. Pages are taken and returned in any context,
//! without a lock. Use a stash where code needs a page often and without delay, and has a fallback
//! if there is none. Where there is no fallback, use a [mempool](crate::mm::mempool), which waits
//! for its pages and never gives up its reserve. Where an allocation may sleep, use
//! [`Page::alloc()`](crate::mm::page::Page::alloc).
//!
//! # Filling and draining
//!
//! - [`PageStash::get()`] takes a page of this CPU. If there is none, it queues a work item that
//!   fills the slots of the CPU for later calls.
//! - [`PageStash::put()`] puts a page into a slot of this CPU. If all slots are full, it returns
//!   the page to the caller.
//! - Under memory pressure, a [shrinker](crate::mm::shrinker) frees the pages of all CPUs down to a
//!   floor. After a scan, or after a failed allocation, the stash is not filled for a while.
//! - [`PageStash::drain()`] frees all pages.
//!
//! These calls may run on several CPUs at once, also for the same CPU's slots. The slots of an
//! offline CPU can be drained like any other, so the stash needs no CPU hotplug callbacks.
//!
//! # Exactness
//!
//! A page is always either in one slot or owned by the caller that took it. The slots have no
//! separate counter: [`PageStash::cached()`] reads the slots, and is exact if no other call runs.
//! In that case also, the number of pages put and [filled](Stats::filled) equals the number of
//! pages taken, [freed](Stats::freed) and cached.
//!
//! A call that runs concurrently with others may miss a page or an empty slot that existed all the
//! time, because it reads each slot once.
//!
//! # Cost
//!
//! Taking or putting a page costs one atomic operation on a slot. Each call searches from the first
//! slot. A caller that takes and puts pages in turn finds both in the first slots, and gets a page
//! that was used recently. A call reads every slot before it reports that there is no page, or that
//! all slots are full.
//!
//! The algorithm is in `rust/mm/page_stash/slots.rs`. `tests/host/loom` explores its interleavings.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/page_stash.rs")]
//! ```
//!
//! C: the page cache of `kvfree_rcu()` in `mm/slab_common.c`, which takes a lock.

use kernel::sync::atomic;

mod cpus;
mod filler;
mod shared;
mod slots;
mod stash;

pub(crate) use filler::Filler;
pub use shared::{
    Options,
    Stats, //
};
pub use stash::PageStash;
