// SPDX-License-Identifier: GPL-2.0

//! What a call of the library costs: the Rust half of the benchmark `wrappers`.
//!
//! Each file in `bench_wrappers/` of debugfs is one call, and reading it measures that. A line is
//! how many nanoseconds a loop of so many calls took: with the instruction clock, a nanosecond is
//! an instruction. `twins.c` has the same calls in C, under the same names in `bench_wrappers_c/`.
//!
//! ```text
//! # cat /sys/kernel/debug/bench_wrappers/percpu_counter_add
//! 7427 256
//! ```

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

use core::{
    hint::black_box,
    num::NonZeroU16, //
};

use kscale::{
    gfp::{
        noio_scope,
        Gfp, //
    },
    mempool::{
        Mempool,
        PageAllocator, //
    },
    new_percpu_counter,
    page::{
        self,
        Page, //
    },
    percpu_counter::PerCpuCounter, //
};

module! {
    type: WrappersModule,
    name: "bench_wrappers",
    authors: ["The kscale authors"],
    description: "What a call of the library costs",
    license: "GPL",
}

/// Calls in one round: a multiple of the batch, so that all rounds fold the counter as often.
const CALLS: usize = 256;

/// The smallest of so many is what no timer interrupt has disturbed.
const ROUNDS: usize = 5;

/// Pages of one bulk, and in reserve.
const BULK: usize = 32;

/// Not the default one.
const BATCH: NonZeroU16 = match NonZeroU16::new(64) {
    Some(batch) => batch,
    None => NonZeroU16::MIN,
};

/// Far from what a counter counts up to.
const FAR: i64 = 1 << 40;

#[pin_data]
struct WrappersModule {
    #[pin]
    _cases: Scope<Bench>,
}

impl kernel::InPlaceModule for WrappersModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _cases <- Scope::dir(Bench::new(), c"bench_wrappers", add_cases),
        })
    }
}

/// What the calls are made on.
#[pin_data]
struct Bench {
    #[pin]
    counter: PerCpuCounter,
    /// Never changes.
    #[pin]
    still: PerCpuCounter,
    #[pin]
    pages: Mempool<PageAllocator>,
}

impl Bench {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            counter <- new_percpu_counter!(0),
            still <- new_percpu_counter!(0),
            pages <- Mempool::new(BULK, PageAllocator),
        })
    }
}

/// Makes [`CALLS`] calls, and returns how long they took.
#[inline(never)]
fn measure<T>(bench: &Bench, call: impl Fn(&Bench) -> T) -> i64 {
    let calls = black_box(CALLS);
    let begin = Instant::<Monotonic>::now();

    for _ in 0..calls {
        black_box(call(bench));
    }
    begin.elapsed().as_nanos()
}

/// Writes a line for each round.
fn report<T>(
    f: &mut fmt::Formatter<'_>,
    bench: &Bench,
    call: impl Fn(&Bench) -> T + Copy,
) -> fmt::Result {
    for _ in 0..ROUNDS {
        writeln!(f, "{} {CALLS}", measure(bench, call))?;
    }
    Ok(())
}

/// Adds a file for each case.
macro_rules! cases {
    ($bench:ident, $dir:ident, $($name:literal => $call:expr,)*) => {
        $($dir.read_callback_file($name, $bench, &|bench: &Bench, f: &mut fmt::Formatter<'_>| {
            report(f, bench, $call)
        });)*
    };
}

fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"empty" => |_| (),
        c"percpu_counter_add" => |b| b.counter.add(1),
        c"percpu_counter_sub" => |b| b.counter.sub(1),
        c"percpu_counter_add_batch" => |b| b.counter.add_batch(1, BATCH),
        c"percpu_counter_read" => |b| b.counter.read(),
        c"percpu_counter_read_positive" => |b| b.counter.read_positive(),
        c"percpu_counter_sum" => |b| b.counter.sum(),
        c"percpu_counter_sum_positive" => |b| b.counter.sum_positive(),
        c"percpu_counter_compare_far" => |b| b.still.compare(FAR).is_ge(),
        c"percpu_counter_compare_near" => |b| b.still.compare(1).is_ge(),
        c"percpu_counter_sync" => |b| b.counter.sync(),
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
    let mut pages = [const { None }; BULK];

    drop(bench.pages.alloc_bulk(black_box(&mut pages)));
}
