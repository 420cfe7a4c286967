// SPDX-License-Identifier: GPL-2.0

//! Get and put of a page, by one task and by several: the benchmark `kvfree-rcu-pages`.
//!
//! A read of a file in `bench_cache/` of debugfs runs a measurement and returns lines
//! `<nanoseconds> <number of pages>`:
//!
//! - `cost-local`, `cost-remote`: get and put of pages, a line for each round. `local` uses the
//!   cache of the local CPU, `remote` that of a CPU by number.
//! - `tasks-<number>_local`, `tasks-<number>_remote`: get and put of pages by several tasks. Each
//!   task uses the cache of its own CPU, or all tasks use that of CPU 0.

#![forbid(unsafe_code)]

use kernel::{
    cpu::CpuId,
    debugfs::{
        Scope,
        ScopedDir, //
    },
    fmt,
    prelude::*,
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    }, //
};

use core::hint::black_box;

use kscale::mm::{
    page::Page,
    page_stash::{
        Options,
        PageStash, //
    }, //
};

mod tasks;

use tasks::in_tasks;

module! {
    type: CacheModule,
    name: "bench_cache",
    authors: ["The kscale authors"],
    description: "Cost of get and put of a page",
    license: "GPL",
}

/// Number of get and put calls in one round.
const CALLS: usize = 256;

/// Number of rounds. The minimum is a round without a timer interrupt.
const ROUNDS: usize = 5;

/// Number of get and put calls of each task.
const TASK_CALLS: usize = 20_000;

/// As in `bench/twins/cache.c`.
const PAGES_PER_CPU: usize = 8;

/// The cache that a task uses.
#[derive(Clone, Copy)]
enum Whose {
    /// That of the CPU that the task runs on.
    Local,
    /// That of the CPU with this number.
    Remote(CpuId),
}

struct Bench(Arc<PageStash>);

impl Bench {
    fn new() -> Result<Self> {
        let options = Options {
            pages_per_cpu: PAGES_PER_CPU,
            ..Options::default()
        };
        let cache = PageStash::new(c"bench_cache", options)?;

        cache.fill()?;
        Ok(Self(Arc::new(cache, GFP_KERNEL)?))
    }
}

/// Gets a page and puts it back. Frees the page if the cache is full.
#[inline]
fn get_and_put(cache: &PageStash, whose: Whose) {
    let page: Option<Page> = match whose {
        Whose::Local => cache.get(),
        Whose::Remote(cpu) => cache.get_on(cpu),
    };

    if let Some(page) = black_box(page) {
        drop(match whose {
            Whose::Local => cache.put(page),
            Whose::Remote(cpu) => cache.put_on(cpu, page),
        });
    }
}

#[inline(never)]
fn measure(cache: &PageStash, whose: Whose) -> i64 {
    let calls = black_box(CALLS);
    let begin = Instant::<Monotonic>::now();

    for _ in 0..calls {
        get_and_put(black_box(cache), whose);
    }
    begin.elapsed().as_nanos()
}

/// The loop alone.
#[inline(never)]
fn measure_without(cache: &PageStash) -> i64 {
    let calls = black_box(CALLS);
    let begin = Instant::<Monotonic>::now();

    for _ in 0..calls {
        black_box(cache);
    }
    begin.elapsed().as_nanos()
}

fn cost(cache: &PageStash, whose: Whose, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..ROUNDS {
        writeln!(f, "{} {CALLS}", measure(cache, whose))?;
    }
    Ok(())
}

fn cost_without(bench: &Bench, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for _ in 0..ROUNDS {
        writeln!(f, "{} {CALLS}", measure_without(&bench.0))?;
    }
    Ok(())
}

fn tasks(cache: &Arc<PageStash>, count: usize, whose: Whose, f: &mut fmt::Formatter<'_>) -> Result {
    let elapsed_ns = in_tasks(count, cache, move |cache| {
        for _ in 0..TASK_CALLS {
            get_and_put(cache, whose);
        }
    })?;
    // OVERFLOW: Both numbers are small.
    writeln!(f, "{elapsed_ns} {}", count.wrapping_mul(TASK_CALLS))?;
    Ok(())
}

/// Returns the cache of CPU 0.
fn of_cpu_0() -> Whose {
    CpuId::from_u32(0).map_or(Whose::Local, Whose::Remote)
}

/// Adds a file for each number of tasks.
macro_rules! task_files {
    ($bench:ident, $dir:ident, $($name:literal => ($count:literal, $whose:expr),)*) => {
        $($dir.read_callback_file($name, $bench, &|bench: &Bench, f: &mut fmt::Formatter<'_>| {
            tasks(&bench.0, $count, $whose, f).map_err(|_| fmt::Error)
        });)*
    };
}

fn add_files<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    dir.read_callback_file(c"cost-local", bench, &|bench, f| {
        cost(&bench.0, Whose::Local, f)
    });
    dir.read_callback_file(c"cost-remote", bench, &|bench, f| {
        cost(&bench.0, of_cpu_0(), f)
    });
    // The callers in C have a lock for other work. No work in Rust needs it.
    dir.read_callback_file(c"cost-callers", bench, &|bench, f| {
        cost(&bench.0, Whose::Local, f)
    });
    dir.read_callback_file(c"cost-without_local", bench, &cost_without);
    dir.read_callback_file(c"cost-without_remote", bench, &cost_without);
    dir.read_callback_file(c"cost-without_callers", bench, &cost_without);
    task_files! { bench, dir,
        c"tasks-1_local" => (1, Whose::Local),
        c"tasks-2_local" => (2, Whose::Local),
        c"tasks-4_local" => (4, Whose::Local),
        c"tasks-1_remote" => (1, of_cpu_0()),
        c"tasks-2_remote" => (2, of_cpu_0()),
        c"tasks-4_remote" => (4, of_cpu_0()),
    }
}

#[pin_data]
struct CacheModule {
    #[pin]
    _bench: Scope<Bench>,
}

impl kernel::InPlaceModule for CacheModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            let bench = Bench::new()?;

            Ok(try_pin_init!(Self {
                _bench <- Scope::dir(bench, c"bench_cache", add_files),
            }))
        })
    }
}
