// SPDX-License-Identifier: GPL-2.0

//! The callbacks of a shrinker, called as by memory reclaim: one count, and one scan.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use kscale::mm::{
    gfp::Gfp,
    list_lru::{
        ListLru,
        Status, //
    },
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

use crate::{
    measure,
    CALLS,
    ROUNDS, //
};

/// Number of objects that one call scans.
const SCANNED: usize = 32;

/// An object on a list.
type Words = [u64; 16];

/// A cache whose scan frees no object.
struct Number(Atomic<usize>);

#[vtable]
impl Callbacks for Number {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::new(self.0.load(Relaxed))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        Scan::freed(control.nr_to_scan())
    }
}

/// A list of objects in use: a scan rotates them.
struct Used(ListLru<Words>);

#[vtable]
impl Callbacks for Used {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        Count::new(self.0.shrink_count(control))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        let isolated = self.0.shrink_walk(control, |_| Status::Rotate);
        Scan::freed(isolated.len())
    }
}

/// A list of unused objects: a scan frees them.
struct Unused(ListLru<Words>);

#[vtable]
impl Callbacks for Unused {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        Count::new(self.0.shrink_count(control))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        let isolated = self.0.shrink_walk(control, |_| Status::Isolate);
        let freed = isolated.len();
        drop(isolated);
        Scan::freed(freed)
    }
}

/// Unused pages, in a vector with capacity for all of them.
#[pin_data]
struct Free {
    #[pin]
    pages: SpinLock<KVVec<Page>>,
}

impl Free {
    fn new() -> Result<Arc<Self>> {
        let pages = KVVec::with_capacity(CALLS * SCANNED, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self { pages <- new_spinlock!(pages) }),
            GFP_KERNEL,
        )
    }

    fn fill(&self, count: usize) {
        for _ in 0..count {
            if let Ok(page) = Page::alloc(Gfp::KERNEL) {
                let _ = self.pages.lock().push_within_capacity(page);
            }
        }
    }
}

#[vtable]
impl Callbacks for Free {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        Count::new(self.pages.lock().len())
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        let mut freed = 0;
        while freed < control.nr_to_scan() {
            let Some(page) = self.pages.lock().pop() else {
                break;
            };
            drop(page);
            freed += 1;
        }
        Scan::freed(freed)
    }
}

fn fill(lru: &ListLru<Words>, count: usize) {
    for _ in 0..count {
        if let Ok(item) = lru.alloc([0; 16], Gfp::KERNEL) {
            item.add();
        }
    }
}

fn shrinker() -> Result<Shrinker> {
    Shrinker::new(c"bench", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)
}

/// Returns a shrinker, and the cache that `new` creates from its lists.
fn register<T: Callbacks>(new: fn(ListLru<Words>) -> T) -> Result<(Registration<T>, Arc<T>)> {
    let shrinker = shrinker()?;
    let lru = ListLru::new(c"bench", &shrinker)?;
    fill(&lru, SCANNED);
    let cache = Arc::new(new(lru), GFP_KERNEL)?;
    Ok((shrinker.register(cache.clone())?, cache))
}

pub(crate) struct Bench {
    number: Registration<Number>,
    used: (Registration<Used>, Arc<Used>),
    unused: (Registration<Unused>, Arc<Unused>),
    pages: (Registration<Free>, Arc<Free>),
}

impl Bench {
    pub(crate) fn new() -> Result<Self> {
        let number = Arc::new(Number(Atomic::new(1000)), GFP_KERNEL)?;
        let pages = Free::new()?;
        Ok(Self {
            number: shrinker()?.register(number)?,
            used: register(Used)?,
            unused: register(Unused)?,
            pages: (shrinker()?.register(pages.clone())?, pages),
        })
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"shrinker_number" => |b| b.number.call_back(SCANNED),
        c"shrinker_rotate_32" => |b| b.used.0.call_back(SCANNED),
    }
    dir.read_callback_file(c"shrinker_free_32", bench, &free);
    dir.read_callback_file(c"shrinker_free_pages_32", bench, &free_pages);
}

/// Measures calls that free the objects of the setup.
fn free(bench: &Bench, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..ROUNDS {
        let (registration, cache) = &bench.unused;
        fill(&cache.0, CALLS * SCANNED);
        let took = measure(registration, |r| r.call_back(SCANNED));
        writeln!(f, "{took} {CALLS}")?;
    }
    Ok(())
}

fn free_pages(bench: &Bench, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..ROUNDS {
        let (registration, cache) = &bench.pages;
        cache.fill(CALLS * SCANNED);
        let took = measure(registration, |r| r.call_back(SCANNED));
        writeln!(f, "{took} {CALLS}")?;
    }
    Ok(())
}
