// SPDX-License-Identifier: GPL-2.0

//! Memory pools.
//!
//! A [`Mempool`] keeps a reserve of memory elements, so that an allocation makes progress when the
//! system is out of memory. Forward progress requires that every element returns to the pool, as
//! with I/O. Use a pool where the work itself frees memory, as in the write path of a block driver.
//! Do not use a pool where the caller can handle a failed allocation, or as a cache: the memory in
//! reserve is of no use to the rest of the system. Use a [`slab::Cache`](crate::mm::slab::Cache) as
//! a cache. A task that holds an element while it waits for another element defeats the pool. An
//! element that is held without a time limit does too.
//!
//! # Elements
//!
//! | source | element | C allocator |
//! | --- | --- | --- |
//! | [`Kmalloc<T>`](Kmalloc) | memory for a `T` | `kmalloc()` |
//! | [`Slab<R>`](Slab) | memory for a value of a [cache](crate::mm::slab) | `kmem_cache_alloc()` |
//! | [`Pages<ORDER>`](Pages) | [`Page<ORDER>`](crate::mm::page::Page) | `alloc_pages()` |
//! | any [`Allocator`] | its own memory: pages, or memory for a value | its own `alloc()` |
//!
//! An [`Element`] is memory that its holder owns until it drops the element. It borrows the pool
//! ([`Mempool::alloc`]) or holds a reference to the pool ([`Mempool::alloc_arc`]). An element
//! contains no value. Writing a value, which may fail, turns it into a [`PoolBox`]. A [`PoolBox`]
//! drops its value before its memory returns to the pool. The reserve therefore contains no live
//! values: C overwrites the reserve if the kernel has KASAN or was booted with `mempool_debug`.
//!
//! Allocate all elements of a request at once with [`Mempool::alloc_bulk`]. Two requests that
//! allocate their elements one by one can deadlock: each waits for elements that the other holds.
//!
//! # Contexts
//!
//! Elements are allocated and freed in any context except NMI. The flags decide whether an
//! allocation sleeps. Some types add a requirement: a [`PoolBox`] drops its value first, an
//! [`Allocator`] may be called, and the last `Arc` of a pool drops the pool. Dropping the pool of a
//! [`Slab`] sleeps.
//!
//! # Forgotten elements
//!
//! A forgotten element (`mem::forget()`) is never reused and never freed. The reserve of its pool
//! stays one element short, so an allocation of as many elements as the pool was created for may
//! wait forever. A pool may be dropped while elements that borrowed it are forgotten. A pool is
//! never freed if a forgotten element holds a reference to it. The slab cache of a forgotten
//! element is never destroyed, see [`slab`](crate::mm::slab).
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/mempool.rs")]
//! ```
//!
//! C header: [`include/linux/mempool.h`](srctree/include/linux/mempool.h)

mod allocator;
mod bulk;
mod bytes;
mod element;
mod kmalloc;
mod memory;
mod pages;
mod pool;
mod raw;
mod slab;
mod source;
#[cfg(kscale_kunit)]
mod test_allocator;
#[cfg(kscale_kunit)]
mod values;
#[cfg(kscale_kunit)]
mod writers;

pub use allocator::Allocator;
pub use bulk::Bulk;
pub(crate) use bytes::KmallocBytes;
pub use element::{
    Element,
    PoolBox,
    PoolRef, //
};
pub use kmalloc::Kmalloc;
pub use memory::{
    Memory,
    RawElement,
    ValueMemory, //
};
pub use pages::Pages;
pub use pool::Mempool;
pub use slab::Slab;
pub use source::Source;
