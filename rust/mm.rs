// SPDX-License-Identifier: GPL-2.0

//! Memory: pages, pools and caches, and how they give memory back.
//!
//! [`page`] has owned pages, [`slab`] caches of one type, and [`mempool`] reserves for the I/O
//! path; [`boxed`] has values in the memory of the last two. [`shrinker`] and [`list_lru`] free
//! objects when memory is short. [`gfp`] has the allocation flags and scopes of all of them.
//!
//! C headers: [`include/linux/gfp.h`](srctree/include/linux/gfp.h),
//! [`include/linux/mempool.h`](srctree/include/linux/mempool.h),
//! [`include/linux/slab.h`](srctree/include/linux/slab.h),
//! [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h),
//! [`include/linux/list_lru.h`](srctree/include/linux/list_lru.h)

pub mod boxed;
pub mod gfp;
pub mod list_lru;
pub mod mempool;
pub mod page;
pub mod page_stash;
pub mod shrinker;
pub mod slab;
