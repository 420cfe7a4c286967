// SPDX-License-Identifier: GPL-2.0

//! I/O virtual addresses.
//!
//! A [`Domain`] hands out ranges of the addresses that devices behind an IOMMU use. It is made by a
//! [`Builder`], which reserves what must not be handed out; there is no way to reserve any more once
//! ranges are: C would extend one that is in use.
//!
//! A [`Range`] goes back to where it is from when it is dropped, with the size that it was allocated
//! with. It cannot be freed twice, in another domain or after its domain, as there is no function to
//! free one: it borrows its domain, or counts on it as an [`Arc`](kernel::sync::Arc).
//!
//! [`Domain::alloc()`] searches the tree of all ranges under one lock. A [`CachedDomain`] adds the
//! kernel's caches of freed ranges, and [`CachedDomain::alloc_fast()`] looks there first: that is the
//! way for ranges that come and go with I/O.
//!
//! A [`FlushQueue`](flush_queue::FlushQueue) keeps ranges until devices cannot use them any more.
//!
//! Page tables and devices are not supported: addresses are numbers here, with nothing behind them.
//!
//! # Units
//!
//! Sizes and addresses are in page frames of the domain's granule, as C's are. A page frame number
//! (PFN) times the granule in bytes is the address: [`Range::addr()`].
//!
//! # Context
//!
//! Ranges are allocated and freed in any context but NMI, without sleeping; their nodes and magazines
//! are allocated as `GFP_ATOMIC`. Domains are made and dropped in process context. To make or drop
//! one with caches waits for the lock of CPU hotplug, so a [callback of it](crate::percpu::hotplug) must not:
//! types do not prevent it.
//!
//! # What is forgotten
//!
//! A range that is forgotten is never handed out again, and its node freed with the domain. A domain
//! that is forgotten stays for good, and refers to no module but that of `drivers/iommu/iova.c`,
//! which stays, too.
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/iova.rs")]
//! ```
//!
//! C header: [`include/linux/iova.h`](srctree/include/linux/iova.h)

mod builder;
mod cached;
mod domain;
pub mod flush_queue;
mod kmem;
pub mod magazine;
mod range;
mod space;
#[cfg(kscale_kunit)]
mod testing;

pub use builder::Builder;
pub use cached::{
    CachedDomain,
    InitRcachesError,
    WhenFull, //
};
pub use domain::{
    Alignment,
    Domain, //
};
pub(crate) use kmem::take_caches;
pub use range::Range;
pub use space::{
    Space,
    SpaceRef, //
};
