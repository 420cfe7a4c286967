// SPDX-License-Identifier: GPL-2.0

//! I/O virtual addresses.
//!
//! A [`Domain`] allocates ranges of the addresses that devices behind an IOMMU use. A [`Builder`]
//! creates it, and reserves the addresses that must not be allocated. Addresses cannot be reserved
//! later: `reserve_iova()` would extend a range that is in use.
//!
//! A [`Range`] returns to its domain or cache when it is dropped, with the size of its allocation.
//! There is no function to free a range, so safe code cannot free it twice, in another domain, or
//! after its domain: a range borrows its domain, or holds an [`Arc`](kernel::sync::Arc) to it.
//!
//! [`Domain::alloc()`] searches the tree of all ranges under one lock. A [`CachedDomain`] adds the
//! kernel's caches of freed ranges. [`CachedDomain::alloc_fast()`] searches the caches first: use
//! it for ranges that are allocated and freed per I/O.
//!
//! A [`FlushQueue`](flush_queue::FlushQueue) keeps ranges until devices cannot use them any more.
//!
//! Page tables and devices are not supported: addresses are plain numbers here.
//!
//! # Units
//!
//! Sizes and addresses are in page frames of the domain's granule, as in C. A page frame number
//! (PFN) times the granule in bytes is the address: [`Range::addr()`].
//!
//! # Context
//!
//! Ranges are allocated and freed in any context except NMI, without sleeping. Their nodes and
//! magazines are allocated with `GFP_ATOMIC`. Domains are created and dropped in process context.
//! Creating or dropping a domain with caches takes the CPU hotplug lock, so a
//! [hotplug callback](crate::percpu::hotplug) must not do it. Types do not prevent that.
//!
//! # Leaks
//!
//! A leaked range is never allocated again, and its node is freed with the domain. A leaked domain
//! is never freed. It refers to no module except that of `drivers/iommu/iova.c`, which then cannot
//! be unloaded.
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
pub use space::Space;
