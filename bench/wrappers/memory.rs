// SPDX-License-Identifier: GPL-2.0

//! Pages and memory pools, and nothing at all.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*, //
};

use core::{
    hint::black_box,
    mem::MaybeUninit, //
};

use kscale::{
    gfp::{
        noio_scope,
        Gfp, //
    },
    mempool::{
        Mempool,
        Pages, //
    },
    page::{
        self,
        Page, //
    },
};

/// Pages of one bulk, and in reserve.
const BULK: usize = 32;

#[pin_data]
pub(crate) struct Bench {
    #[pin]
    pages: Mempool<Pages>,
}

impl Bench {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pages <- Mempool::new(BULK, Pages::<0>),
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
        c"mempool_alloc" => |b| drop(b.pages.alloc(Gfp::NOIO)),
        c"mempool_alloc_bulk" => mempool_alloc_bulk,
    }
}

fn alloc_bulk() {
    let mut pages = [const { None }; BULK];

    page::alloc_bulk(Gfp::NOIO, black_box(&mut pages));
}

fn mempool_alloc_bulk(bench: &Bench) {
    let mut pages = [const { MaybeUninit::uninit() }; BULK];

    drop(bench.pages.alloc_bulk(black_box(&mut pages)));
}
