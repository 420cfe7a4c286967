// SPDX-License-Identifier: GPL-2.0

//! The cache, and where its pages are.

use kernel::{
    cpu::CpuId,
    fmt,
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    }, //
};

use kscale::{
    mm::{
        gfp::Gfp,
        page::Page,
        page_stash::PageStash, //
    },
    percpu::possible_cpus, //
};

use super::load::Results;

/// A cache, and what is done with pages outside of it.
pub(crate) struct Pages {
    pub(crate) cache: PageStash,
    /// Those that the cache did not have.
    allocated: Atomic<u64>,
    /// Those that it had no room for.
    freed: Atomic<u64>,
}

impl Pages {
    /// Returns a page of the cache, or of the page allocator if there is none.
    pub(crate) fn get(&self, cpu: CpuId) -> Result<Page> {
        if let Some(page) = self.cache.get_on(cpu) {
            return Ok(page);
        }
        let page = Page::alloc(Gfp::KERNEL | Gfp::ZERO)?;
        self.allocated.fetch_add(1, Relaxed);
        Ok(page)
    }

    /// Gives a page to the cache, or to the page allocator if there is no room.
    pub(crate) fn put(&self, cpu: CpuId, page: Page) {
        if let Err(page) = self.cache.put_on(cpu, page) {
            drop(page);
            self.freed.fetch_add(1, Relaxed);
        }
    }

    /// Returns how many pages are in nobody's hands that should be: 0, if nothing is called
    /// meanwhile.
    pub(crate) fn lost(&self, held: usize) -> i64 {
        let Numbers {
            cached,
            allocated,
            freed,
        } = self.numbers();

        // CAST: There are not as many pages, and who allocates and frees them takes some time.
        allocated as i64 - freed as i64 - (cached + held) as i64
    }

    fn numbers(&self) -> Numbers {
        let stats = self.cache.stats();

        Numbers {
            cached: self.cache.cached(),
            allocated: self.allocated.load(Relaxed) + stats.filled,
            freed: self.freed.load(Relaxed) + stats.freed,
        }
    }
}

/// Numbers of pages.
struct Numbers {
    cached: usize,
    allocated: u64,
    freed: u64,
}

/// What the files are about.
#[pin_data]
pub(crate) struct Service {
    pub(crate) pages: Arc<Pages>,
    /// Pages of whoever writes into the files.
    #[pin]
    pub(crate) held: Mutex<KVec<Page>>,
    /// What the last load found.
    #[pin]
    pub(crate) last: Mutex<Results>,
}

impl Service {
    pub(crate) fn new(cache: PageStash) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            pages: Arc::new(
                Pages {
                    cache,
                    allocated: Atomic::new(0),
                    freed: Atomic::new(0),
                },
                GFP_KERNEL,
            )?,
            held <- new_mutex!(KVec::new()),
            last <- new_mutex!(Results::default()),
        })
    }

    /// Prints where all pages are.
    pub(crate) fn write_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.held.lock().len();
        let Numbers {
            cached,
            allocated,
            freed,
        } = self.pages.numbers();

        writeln!(
            f,
            "pages cached {cached} held {held} allocated {allocated} freed {freed}"
        )?;
        let stats = self.pages.cache.stats();
        writeln!(f, "cache filled {} freed {}", stats.filled, stats.freed)
    }

    /// Prints how many pages are cached for each CPU.
    pub(crate) fn write_cpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cpu in possible_cpus() {
            let cached = self.pages.cache.cached_on(cpu);
            writeln!(f, "cpu {} cached {cached}", cpu.as_u32())?;
        }
        Ok(())
    }
}
