// SPDX-License-Identifier: GPL-2.0

//! Pages, slab caches and memory pools, and the empty call.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*,
    sync::Arc, //
};

use core::{
    hint::black_box,
    mem::MaybeUninit, //
};

use kscale::mm::{
    gfp::{
        noio_scope,
        Gfp, //
    },
    mempool::{
        Kmalloc,
        Mempool,
        Pages,
        Slab, //
    },
    page::{
        self,
        Page, //
    },
    slab::Cache, //
};

/// Number of elements of a bulk, and of the reserve.
const BULK: usize = 32;

/// The type of the elements of caches and pools.
type Value = [u64; 16];

#[pin_data]
#[repr(C)]
pub(crate) struct Bench {
    cache: Arc<Cache<Value>>,
    #[pin]
    kmalloc: Mempool<Kmalloc<Value>>,
    #[pin]
    slab: Mempool<Slab<Arc<Cache<Value>>>>,
    #[pin]
    pages: Mempool<Pages>,
}

impl Bench {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            let cache = Arc::new(Cache::new(c"bench")?, GFP_KERNEL)?;

            Ok(try_pin_init!(Self {
                kmalloc <- Mempool::new(BULK, Kmalloc::new()),
                slab <- Mempool::new(BULK, Slab::new(cache.clone())),
                pages <- Mempool::new(BULK, Pages::<0>),
                cache,
            }))
        })
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"empty" => |_| (),
        c"noio_scope" => |_| noio_scope(|| black_box(())),
        c"totalram_pages" => |_| page::totalram_pages(),
        c"alloc_page" => |_| drop(Page::<0>::alloc(Gfp::NOIO)),
        c"alloc_pages_order_2" => |_| drop(Page::<2>::alloc(Gfp::NOIO)),
        c"alloc_pages_bulk" => |_| alloc_bulk(),
        c"kmem_cache_alloc" => |b| drop(b.cache.alloc(Gfp::NOIO)),
        c"mempool_alloc_kmalloc" => |b| drop(b.kmalloc.alloc(Gfp::NOIO)),
        c"mempool_alloc_slab" => |b| drop(b.slab.alloc(Gfp::NOIO)),
        c"mempool_alloc_pages" => |b| drop(b.pages.alloc(Gfp::NOIO)),
        c"mempool_alloc_preallocated" => |b| drop(b.pages.alloc_preallocated()),
        c"mempool_alloc_bulk_kmalloc" => |b| {
            let mut slots = [const { MaybeUninit::uninit() }; BULK];

            drop(b.kmalloc.alloc_bulk(black_box(&mut slots)));
        },
        c"mempool_alloc_bulk_slab" => |b| {
            let mut slots = [const { MaybeUninit::uninit() }; BULK];

            drop(b.slab.alloc_bulk(black_box(&mut slots)));
        },
        c"mempool_alloc_bulk_pages" => |b| {
            let mut slots = [const { MaybeUninit::uninit() }; BULK];

            drop(b.pages.alloc_bulk(black_box(&mut slots)));
        },
    }
}

fn alloc_bulk() {
    let mut pages = [const { None }; BULK];

    page::alloc_bulk(Gfp::NOIO, black_box(&mut pages));
}
