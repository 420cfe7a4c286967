// SPDX-License-Identifier: GPL-2.0

//! Cost of the pages of a write from several sources: the benchmark `dm-crypt-bulk-alloc`.
//!
//! `bench_pages/` of debugfs has a directory for each source, see `ways.rs`. A read of a file runs
//! a measurement. It returns a line for each round: the nanoseconds to allocate and free the pages.
//! `256_cold` is 256 pages in the state `cold`. The states of memory:
//!
//! - `warm`: after several rounds of the same measurement.
//! - `cold`: the per-CPU lists of the page allocator have few pages, so most pages come from the
//!   zone.
//! - `fragmented`: every second page is in use, so there are no free blocks of two pages.

#![forbid(unsafe_code)]

use kernel::{
    debugfs::{
        Scope,
        ScopedDir, //
    },
    fmt,
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    }, //
};

use kscale::{
    mm::{
        gfp::Gfp,
        mempool::{
            Mempool,
            Pages, //
        },
        page::{
            self,
            Page, //
        },
        page_stash::{
            Options,
            PageStash, //
        }, //
    },
    percpu::counter::PerCpuCounter, //
};

mod ways;

use ways::{
    Bulk,
    Compound,
    Mixed,
    Recycled,
    Single,
    Way, //
};

module! {
    type: PagesModule,
    name: "bench_pages",
    authors: ["The kscale authors"],
    description: "Cost of the pages of a write",
    license: "GPL",
}

/// Number of pages of the largest bio, and of the reserve.
const MAX_PAGES: usize = 256;

/// Number of rounds. The minimum is a round without a timer interrupt.
const ROUNDS: usize = 5;

/// Flags for pages that need no wait, as in dm-crypt.
const FIRST_PASS: Gfp = Gfp::NOWAIT
    .union(Gfp::NORETRY)
    .union(Gfp::NOMEMALLOC)
    .union(Gfp::NOWARN);

/// More pages than a per-CPU list of the page allocator has.
const DRAINED: usize = 8192;

/// A limit that is never reached.
const LIMIT: i64 = 1 << 40;

/// The sources of pages and the number of allocated pages.
#[pin_data]
pub(crate) struct Bench {
    #[pin]
    pool: Mempool<Pages>,
    #[pin]
    counter: PerCpuCounter,
    cache: PageStash,
}

impl Bench {
    fn new() -> impl PinInit<Self, Error> {
        let options = Options {
            pages_per_cpu: PageStash::MAX_PAGES_PER_CPU,
            ..Options::default()
        };

        try_pin_init!(Self {
            pool <- Mempool::new(MAX_PAGES, Pages::<0>),
            counter <- PerCpuCounter::new(0),
            cache: PageStash::new(c"bench_pages", options)?,
        })
    }

    /// Returns whether the approximate count is below the limit.
    #[inline]
    fn has_room(&self) -> bool {
        self.counter.compare_approx(LIMIT).is_lt()
    }
}

/// The state of the page allocator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Warm,
    Cold,
    Fragmented,
}

/// Pages that are held to fragment memory.
struct Fragments {
    _pages: KVVec<Page>,
    _pairs: KVVec<Page<1>>,
}

/// Allocates all free pages, and frees every second one.
fn fragment() -> Result<Fragments> {
    let mut kept = KVVec::with_capacity(page::totalram_pages(), GFP_KERNEL)?;
    let mut given_back = KVVec::with_capacity(page::totalram_pages(), GFP_KERNEL)?;
    let mut pairs = KVVec::new();

    while let (Ok(keep), Ok(give_back)) = (
        Page::<0>::alloc(FIRST_PASS),
        Page::<0>::alloc(FIRST_PASS), //
    ) {
        kept.push(keep, GFP_KERNEL)?;
        given_back.push(give_back, GFP_KERNEL)?;
    }
    drop(given_back);
    // Pages that the first pass could not get.
    while let Ok(pair) = Page::<1>::alloc(FIRST_PASS) {
        pairs.push(pair, GFP_KERNEL)?;
    }
    Ok(Fragments {
        _pages: kept,
        _pairs: pairs,
    })
}

/// Almost empties the lists of this CPU. Returns their pages.
fn drain() -> Result<KVec<Page>> {
    let mut drained = KVec::with_capacity(DRAINED, GFP_KERNEL)?;

    for _ in 0..DRAINED {
        drained.push(Page::alloc(FIRST_PASS)?, GFP_KERNEL)?;
        // Freeing a page now and then prevents the page allocator from increasing the size of its
        // refills.
        drop(Page::<0>::alloc(FIRST_PASS)?);
    }
    Ok(drained)
}

/// Runs rounds of `count` pages. Writes a line for each round.
fn rounds<W: Way>(mut way: W, count: usize, state: State, f: &mut fmt::Formatter<'_>) -> Result {
    let _kept = match state {
        State::Fragmented => Some(fragment()?),
        State::Warm | State::Cold => None,
    };
    way.fill_and_empty(count)?;

    for _ in 0..ROUNDS {
        let _drained = match state {
            State::Cold => Some(drain()?),
            State::Warm | State::Fragmented => None,
        };
        let begin = Instant::<Monotonic>::now();
        way.fill_and_empty(count)?;
        writeln!(f, "{} 1", begin.elapsed().as_nanos())?;
    }
    Ok(())
}

/// Adds the files of a source to its directory.
macro_rules! files {
    ($bench:ident, $dir:expr, $way:ident, $($name:literal => ($count:literal, $state:ident),)*) => {
        let dir = $dir;
        $(dir.read_callback_file($name, $bench, &|bench: &Bench, f: &mut fmt::Formatter<'_>| {
            $way::new(bench)
                .and_then(|way| rounds(way, $count, State::$state, f))
                .map_err(|_| fmt::Error)
        });)*
    };
}

macro_rules! all_files {
    ($bench:ident, $dir:ident, $($name:literal => $way:ident,)*) => {
        $({
            files! { $bench, $dir.dir($name), $way,
                c"32_warm" => (32, Warm),
                c"32_fragmented" => (32, Fragmented),
                c"256_warm" => (256, Warm),
                c"256_cold" => (256, Cold),
                c"256_fragmented" => (256, Fragmented),
            }
        })*
    };
}

fn add_files<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    all_files! { bench, dir,
        c"single" => Single,
        c"compound" => Compound,
        c"bulk" => Bulk,
        c"recycled" => Recycled,
        c"mixed" => Mixed,
    }
}

#[pin_data]
struct PagesModule {
    #[pin]
    _bench: Scope<Bench>,
}

impl kernel::InPlaceModule for PagesModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _bench <- Scope::dir(Bench::new(), c"bench_pages", add_files),
        })
    }
}
