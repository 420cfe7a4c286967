// SPDX-License-Identifier: GPL-2.0

//! The stash and the location of its pages.

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

/// A stash with counts of the pages outside of it.
pub(crate) struct Pages {
    pub(crate) cache: PageStash,
    /// Pages that the page allocator supplied because the stash was empty.
    allocated: Atomic<u64>,
    /// Pages that were freed because the stash was full.
    freed: Atomic<u64>,
}

impl Pages {
    /// Returns a page from the stash, or from the page allocator if the stash is empty.
    pub(crate) fn get(&self, cpu: CpuId) -> Result<Page> {
        if let Some(page) = self.cache.get_on(cpu) {
            return Ok(page);
        }
        let page = Page::alloc(Gfp::KERNEL | Gfp::ZERO)?;
        self.allocated.fetch_add(1, Relaxed);
        Ok(page)
    }

    /// Puts a page into the stash, or frees it if the stash is full.
    pub(crate) fn put(&self, cpu: CpuId, page: Page) {
        if let Err(page) = self.cache.put_on(cpu, page) {
            drop(page);
            self.freed.fetch_add(1, Relaxed);
        }
    }

    /// Returns the number of pages that are not accounted for. It is 0 if no page moves
    /// concurrently.
    pub(crate) fn lost(&self, held: usize) -> i64 {
        let Numbers {
            cached,
            allocated,
            freed,
        } = self.numbers();

        // CAST: No system has that many pages, and the number of calls is bounded by time.
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

/// Numbers of pages by location.
struct Numbers {
    cached: usize,
    allocated: u64,
    freed: u64,
}

/// The data of the debugfs files.
#[pin_data]
pub(crate) struct Service {
    pub(crate) pages: Arc<Pages>,
    /// Pages that the files `get` and `put` hold.
    #[pin]
    pub(crate) held: Mutex<KVec<Page>>,
    /// Results of the last load.
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

    /// Prints the number of pages by location.
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

    /// Prints the number of cached pages of each CPU.
    pub(crate) fn write_cpus(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for cpu in possible_cpus() {
            let cached = self.pages.cache.cached_on(cpu);
            writeln!(f, "cpu {} cached {cached}", cpu.as_u32())?;
        }
        Ok(())
    }
}
