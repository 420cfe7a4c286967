// SPDX-License-Identifier: GPL-2.0

//! Caches pages of a file system, and frees them when memory is short.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};

use core::num::NonZeroU32;

use kscale::mm::{
    gfp::Gfp,
    page::Page,
    shrinker::{
        Callbacks,
        Count,
        Flags,
        Registration,
        Scan,
        ScanControl,
        ShrinkControl,
        Shrinker, //
    }, //
};

const MAX_PAGES: usize = 64;
const BATCH_PAGES: NonZeroU32 = NonZeroU32::new(16).unwrap();

#[pin_data]
struct Pages {
    /// Has capacity for all pages, so no allocation happens under the lock.
    #[pin]
    pages: SpinLock<KVec<Page>>,
}

#[vtable]
impl Callbacks for Pages {
    fn count_objects(&self, _control: &ShrinkControl) -> Count {
        // Reclaim asks again later, and does not wait for the lock.
        self.pages
            .try_lock()
            .map_or(Count::UNKNOWN, |pages| Count::new(pages.len()))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        // The task that needs memory may hold locks of the file system.
        if !control.may_fs() || !control.may_io() {
            return Scan::STOP;
        }
        let mut freed = 0;
        while freed < control.nr_to_scan() {
            // Freed without the lock.
            let page = self.pages.lock().pop();
            if page.is_none() {
                break;
            }
            freed += 1;
        }
        Scan::freed(freed)
    }
}

struct Cache {
    _registration: Registration<Pages>,
    pages: Arc<Pages>,
}

impl Cache {
    fn new() -> Result<Self> {
        let pages = KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?;
        let pages = Arc::pin_init(
            pin_init!(Pages {
                pages <- new_spinlock!(pages),
            }),
            GFP_KERNEL,
        )?;
        // From here on reclaim may call back.
        let registration = Shrinker::new(c"example_pages", Flags::NONE)?
            .set_seeks(1)
            .set_batch(BATCH_PAGES)
            .register(pages.clone())?;
        Ok(Self {
            _registration: registration,
            pages,
        })
    }

    fn get(&self) -> Result<Page> {
        let page = self.pages.pages.lock().pop();
        page.map_or_else(|| Page::alloc(Gfp::NOFS), Ok)
    }

    fn put(&self, page: Page) {
        // The page is freed if there is no capacity.
        let _ = self.pages.pages.lock().push_within_capacity(page);
    }
}

pub(crate) fn example() -> Result {
    let cache = Cache::new()?;

    let page = cache.get()?;
    cache.put(page);
    pr_info!("{} pages cached\n", cache.pages.pages.lock().len());
    Ok(())
}
