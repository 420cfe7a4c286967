// SPDX-License-Identifier: GPL-2.0

//! Cost of calls of the library: the Rust half of the benchmark `wrappers`.
//!
//! A read of a file in `bench_wrappers/` of debugfs measures one call. A line has the duration of a
//! loop in nanoseconds, and the number of calls. With the instruction clock, a nanosecond is an
//! instruction. Each file has a twin in C in `bench/twins`, with the same name in
//! `bench_wrappers_c/`.
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

use core::hint::black_box;

module! {
    type: WrappersModule,
    name: "bench_wrappers",
    authors: ["The kscale authors"],
    description: "Cost of calls of the library",
    license: "GPL",
}

/// Number of calls in a round: a multiple of the batch, so that each round updates the shared count
/// of a counter equally often.
const CALLS: usize = 256;

/// Number of rounds. The minimum is a round without a timer interrupt.
const ROUNDS: usize = 5;

/// Makes [`CALLS`] calls. Returns their duration.
///
/// Each call loads its operands from `bench` again, as calls of real code do.
#[inline(never)]
fn measure<B, T>(bench: &B, mut call: impl FnMut(&B) -> T) -> i64 {
    let calls = black_box(CALLS);
    let begin = Instant::<Monotonic>::now();

    for _ in 0..calls {
        black_box(call(black_box(bench)));
    }
    begin.elapsed().as_nanos()
}

/// Writes a line for each round.
fn report<B, T>(
    f: &mut fmt::Formatter<'_>,
    bench: &B,
    call: impl Fn(&B) -> T + Copy,
) -> fmt::Result {
    for _ in 0..ROUNDS {
        writeln!(f, "{} {CALLS}", measure(bench, call))?;
    }
    Ok(())
}

/// Adds a file for each case to a directory. The cases are calls on `$bench`, a `&Bench`.
macro_rules! cases {
    ($bench:ident, $dir:ident, $($name:literal => $call:expr,)*) => {
        $($dir.read_callback_file($name, $bench, &|bench: &Bench, f: &mut fmt::Formatter<'_>| {
            crate::report(f, bench, $call)
        });)*
    };
}

mod cipher;
mod counter;
mod iova;
mod lists;
mod memory;
mod page_stash;
mod percpu;
mod shrinker;
mod srcu;
mod workqueue;

#[pin_data]
struct WrappersModule {
    #[pin]
    _benches: Scope<Benches>,
}

impl kernel::InPlaceModule for WrappersModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _benches <- Scope::dir(Benches::new(), c"bench_wrappers", Benches::add_cases),
        })
    }
}

/// The objects that the calls use.
#[pin_data]
struct Benches {
    cipher: cipher::Bench,
    #[pin]
    counter: counter::Bench,
    iova: iova::Bench,
    #[pin]
    lists: lists::Bench,
    #[pin]
    memory: memory::Bench,
    page_stash: page_stash::Bench,
    percpu: percpu::Bench,
    shrinker: shrinker::Bench,
    #[pin]
    srcu: srcu::Bench,
    workqueue: workqueue::Bench,
}

impl Benches {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            cipher: cipher::Bench::new()?,
            counter <- counter::Bench::new(),
            iova: iova::Bench::new()?,
            lists <- lists::Bench::new(),
            memory <- memory::Bench::new(),
            page_stash: page_stash::Bench::new()?,
            percpu: percpu::Bench::new()?,
            shrinker: shrinker::Bench::new()?,
            srcu <- srcu::Bench::new(),
            workqueue: workqueue::Bench::new()?,
        })
    }

    fn add_cases<'a>(&'a self, dir: &ScopedDir<'a, '_>) {
        cipher::add_cases(&self.cipher, dir);
        counter::add_cases(&self.counter, dir);
        iova::add_cases(&self.iova, dir);
        lists::add_cases(&self.lists, dir);
        memory::add_cases(&self.memory, dir);
        page_stash::add_cases(&self.page_stash, dir);
        percpu::add_cases(&self.percpu, dir);
        shrinker::add_cases(&self.shrinker, dir);
        srcu::add_cases(&self.srcu, dir);
        workqueue::add_cases(&self.workqueue, dir);
    }
}
