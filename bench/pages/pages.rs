// SPDX-License-Identifier: GPL-2.0

//! What the pages of a write cost, had in several ways: the benchmark `pages`.
//!
//! There is a directory in `bench_pages/` of debugfs for each way, see `ways.rs`. Each file is a
//! measurement, and reading it makes that: a line for each round has the nanoseconds in which so many
//! pages were allocated and freed. `256_cold` is 256 pages, in this state:
//!
//! - `warm`: as after a while of the same.
//! - `cold`: the lists that the page allocator keeps for each CPU have few pages, so that most come
//!   from what all CPUs share.
//! - `fragmented`: every second page is in use, so there are no blocks of two.

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
    gfp::Gfp,
    mempool::{
        Mempool,
        Pages, //
    },
    page::{
        self,
        Page, //
    },
    page_cache::{
        Options,
        PageCache, //
    },
    percpu_counter::PerCpuCounter, //
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
    description: "What the pages of a write cost",
    license: "GPL",
}

/// Pages of the largest bio, and in reserve.
const MAX_PAGES: usize = 256;

/// The smallest of so many is what no timer interrupt has disturbed.
const ROUNDS: usize = 5;

/// What the page allocator has at once, as dm-crypt asks it.
const FIRST_PASS: Gfp = Gfp::NOWAIT
    .union(Gfp::NORETRY)
    .union(Gfp::NOMEMALLOC)
    .union(Gfp::NOWARN);

/// More than the page allocator keeps for a CPU.
const DRAINED: usize = 8192;

/// Never reached.
const LIMIT: i64 = 1 << 40;

/// What pages come from, and how many there are.
#[pin_data]
pub(crate) struct Bench {
    #[pin]
    pool: Mempool<Pages>,
    #[pin]
    counter: PerCpuCounter,
    cache: PageCache,
}

impl Bench {
    fn new() -> impl PinInit<Self, Error> {
        let options = Options {
            pages_per_cpu: PageCache::MAX_PAGES_PER_CPU,
            ..Options::default()
        };

        try_pin_init!(Self {
            pool <- Mempool::new(MAX_PAGES, Pages::<0>),
            counter <- PerCpuCounter::new(0),
            cache: PageCache::new(c"bench_pages", options)?,
        })
    }

    /// Whether there may be more pages, as far as one knows.
    #[inline]
    fn has_room(&self) -> bool {
        self.counter.compare_approx(LIMIT).is_lt()
    }
}

/// What the page allocator has been left as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Warm,
    Cold,
    Fragmented,
}

/// What is kept to leave memory in pieces.
struct Fragments {
    _pages: KVVec<Page>,
    _pairs: KVVec<Page<1>>,
}

/// Takes every page there is, and gives every second one back.
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
    // The last that the page allocator would not give before.
    while let Ok(pair) = Page::<1>::alloc(FIRST_PASS) {
        pairs.push(pair, GFP_KERNEL)?;
    }
    Ok(Fragments {
        _pages: kept,
        _pairs: pairs,
    })
}

/// All but empties the lists of this CPU, and returns what was in them.
fn drain() -> Result<KVec<Page>> {
    let mut drained = KVec::with_capacity(DRAINED, GFP_KERNEL)?;

    for _ in 0..DRAINED {
        drained.push(Page::alloc(FIRST_PASS)?, GFP_KERNEL)?;
        // What is given back now and then keeps the page allocator from filling them up with
        // more and more at a time.
        drop(Page::<0>::alloc(FIRST_PASS)?);
    }
    Ok(drained)
}

/// Makes rounds of `count` pages, and writes a line for each.
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

/// Adds the files of a way to its directory.
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
