// SPDX-License-Identifier: GPL-2.0

//! Memory pools of pages.
//!
//! A [`Mempool`] keeps some pages in reserve, so that whoever takes a page and is sure to give it
//! back, as I/O does, gets one even when no memory is left. Take single pages with
//! [`Mempool::alloc`] and all the pages of one request at once with [`Mempool::alloc_bulk`]: two
//! requests that gather their pages one by one can each end up waiting for the other's.
//!
//! An [`Allocator`] says where pages come from as long as there are some. Pages in the reserve hold
//! no data.
//!
//! Pools of other elements than pages are not supported: `kernel::alloc` has no slab caches to
//! fill them from, and a value would have to be alive in the reserve, where C may poison it.
//!
//! C header: [`include/linux/mempool.h`](srctree/include/linux/mempool.h)

mod allocator;
mod bulk;
#[cfg(kscale_kunit)]
mod counting;
mod element;
mod pool;
mod raw;

pub use allocator::{
    Allocator,
    PageAllocator, //
};
pub use bulk::Bulk;
pub use element::Element;
pub use pool::{
    Mempool,
    Stats, //
};
