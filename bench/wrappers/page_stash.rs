// SPDX-License-Identifier: GPL-2.0

//! Get and put of pages.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*, //
};

use core::{
    array,
    hint::black_box, //
};

use kscale::mm::{
    page::Page,
    page_stash::{
        Options,
        PageStash, //
    }, //
};

/// As in `bench/twins/page_stash.c`.
const PAGES_PER_CPU: usize = 8;

/// Number of pages of a bulk.
const FEW: usize = 4;

pub(crate) struct Bench {
    cache: PageStash,
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let options = Options {
            pages_per_cpu: PAGES_PER_CPU,
            ..Options::default()
        };
        let cache = PageStash::new(c"bench", options)?;

        cache.fill()?;
        Ok(Self { cache })
    }

    #[inline]
    fn put(&self, page: Option<Page>) {
        if let Some(page) = page {
            drop(self.cache.put(page));
        }
    }

    #[inline]
    fn get_and_put_few(&self) {
        let mut pages: [_; FEW] = array::from_fn(|_| self.cache.get());

        black_box(&mut pages);
        pages.into_iter().for_each(|page| self.put(page));
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"page_stash_get" => |b| b.put(black_box(b.cache.get())),
        c"page_stash_get_4" => |b| b.get_and_put_few(),
    }
}
