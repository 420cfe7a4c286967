// SPDX-License-Identifier: GPL-2.0

//! Pages in stock, for those who cannot wait for one.
//!
//! **A design of kscale**: the kernel has no counterpart in C.
//!
//! A [`PageStash`] keeps a few pages for each CPU, to be had and given back in any context, without
//! a lock. Use it where a page is needed at once and often, and there is a way to do without. Where
//! there is none take a [mempool](crate::mm::mempool), which waits for its pages and never gives them
//! away; where an allocation may sleep, [`Page::alloc()`](crate::mm::page::Page::alloc).
//!
//! # Who fills it, and who empties it
//!
//! - [`PageStash::get()`] takes a page of this CPU. If there is none it has a work item fill the
//!   slots of the CPU, for those who come later.
//! - [`PageStash::put()`] leaves a page for this CPU. If there is no room it gives the page back.
//! - When memory is short, a [shrinker](crate::mm::shrinker) frees pages, of all CPUs, but for a floor
//!   that stays. After that, or when no page could be had, nothing is filled for a while.
//! - [`PageStash::drain()`] frees them all.
//!
//! Any of them may run on several CPUs at once, and be about the same CPU. What is in the slots of a
//! CPU that is offline can be drained as that of others, so CPUs come and go without further ado.
//!
//! # What is exact
//!
//! A page is in one slot, or belongs to whoever took it, always. There is no count beside the slots:
//! [`PageStash::cached()`] looks at them, and is exact if no other call runs. Then also what was put
//! and [filled](Stats::filled) is what was taken, [freed](Stats::freed) and is cached.
//!
//! A call that runs beside others may find no page, or no room, though there was one all the time:
//! it looks at each slot once.
//!
//! # Cost
//!
//! A page is taken or left by one atomic operation on its slot. Slots are looked at from the first
//! on, so who takes and leaves pages by turns finds both at once, and a page that was just used;
//! it takes a look at every slot to know that there is no page, or no room.
//!
//! The algorithm is in `rust/mm/page_stash/slots.rs`, which `tests/host/loom` explores.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/page_stash.rs")]
//! ```
//!
//! C: the page cache of `kvfree_rcu()` in `mm/slab_common.c`, which has a lock.

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
