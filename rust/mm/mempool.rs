// SPDX-License-Identifier: GPL-2.0

//! Memory pools.
//!
//! A [`Mempool`] keeps some memory in reserve, so that whoever takes an element and is sure to give
//! it back, as I/O does, gets one even when no memory is left. Use one where work must go on to set
//! memory free, as in a block driver's write path. Do not use one where a failure can be returned
//! to the caller, or as a cache: a [`slab::Cache`](crate::mm::slab::Cache) is one, and what a pool has
//! in reserve is of no use to anybody else. An element that is held until another one can be had
//! defeats the pool; so does one that is held for good.
//!
//! # Elements
//!
//! | source | element | from |
//! | --- | --- | --- |
//! | [`Kmalloc<T>`](Kmalloc) | memory for a `T` | `kmalloc()` |
//! | [`Slab<R>`](Slab) | memory for a value of a [cache](crate::mm::slab) | `kmem_cache_alloc()` |
//! | [`Pages<ORDER>`](Pages) | [`Page<ORDER>`](crate::mm::page::Page) | `alloc_pages()` |
//! | any [`Allocator`] | what it likes: pages, or memory for a value | its own `alloc()` |
//!
//! An [`Element`] is memory that belongs to whoever took it, until it is dropped. It borrows the
//! pool ([`Mempool::alloc`]) or counts on it ([`Mempool::alloc_arc`]). It has no value: a value is
//! put in, which may fail, and makes it a [`PoolBox`]; it is dropped before its memory goes back.
//! So nothing is alive in the reserve, where C overwrites what it keeps if the kernel has KASAN or
//! was booted with `mempool_debug`.
//!
//! Take all elements of one request at once with [`Mempool::alloc_bulk`]: two requests that gather
//! theirs one by one can each end up waiting for the other's.
//!
//! # Contexts
//!
//! Elements are taken and returned in any context but NMI; whether one waits is up to the flags.
//! The exceptions are those of the parts: a [`PoolBox`] drops its value first, an [`Allocator`] may
//! be called, and the last `Arc` of a pool drops the pool, which for a [`Slab`] sleeps.
//!
//! # Elements that are forgotten
//!
//! They are never used again and never freed. The pool lacks them from then on, so who waits for as
//! many as it was made for may wait for ever. It may be dropped without them; one that they count
//! on stays for ever. A slab cache stays, see
//! [`slab`](crate::mm::slab).
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
mod stats;
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
    Slot,
    ValueMemory, //
};
pub use pages::Pages;
pub use pool::Mempool;
pub use slab::Slab;
pub use source::Source;
pub use stats::{
    Counted,
    Stats, //
};
