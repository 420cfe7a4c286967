// SPDX-License-Identifier: GPL-2.0

//! Cost and error of a limit: the benchmark `dm-crypt-page-limit`.
//!
//! `bench_limiter/` of debugfs has a directory for each limit mode of `rcrypt`: comparison of the
//! exact sum, comparison of the approximate count, credits. A read of a file runs a measurement:
//!
//! - `cost-<case>`: lines `<nanoseconds> <number of requests>`, one for each round. A request takes
//!   credits, and returns them if it succeeded.
//! - `tasks-<case>`: `<nanoseconds> <number of requests>` of four tasks.
//! - `admitted`: the number of requests for one credit that succeeded in four tasks, and the limit.
//!
//! The file `read` has the difference between the approximate count and the sum at rest, and its
//! bound.

#![forbid(unsafe_code)]

use kernel::{
    cpu,
    debugfs::{
        Scope,
        ScopedDir, //
    },
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};

use core::hint::black_box;

use kscale::percpu::{
    counter::PerCpuCounter,
    limiter::CreditCounter, //
};

mod tasks;

use tasks::in_tasks;

module! {
    type: LimiterModule,
    name: "bench_limiter",
    authors: ["The kscale authors"],
    description: "Cost and error of a limit",
    license: "GPL",
}

/// Number of requests in one round.
const REQUESTS: usize = 256;

/// Number of rounds. The minimum is a round without a timer interrupt.
const ROUNDS: usize = 5;

const TASKS: usize = 4;

/// Number of requests of each task.
const TASK_REQUESTS: usize = 5000;

/// Number of credits that the tasks request one by one; not a multiple of a batch.
const SHARED: u64 = 200_017;

/// The number of credits in use relative to the limit.
struct Case {
    /// Suffix of the names of the files.
    cost: &'static CStr,
    tasks: &'static CStr,
    limit: u64,
    /// Credits in use during the measurement.
    used: u64,
    /// Credits of one request.
    size: u64,
}

static CASES: [Case; 4] = [
    Case {
        cost: c"cost-far",
        tasks: c"tasks-far",
        limit: 1 << 30,
        used: 0,
        size: 1,
    },
    // The nearest state in which the requests of all tasks succeed.
    Case {
        cost: c"cost-near",
        tasks: c"tasks-near",
        limit: 1 << 20,
        used: (1 << 20) - TASKS as u64,
        size: 1,
    },
    // The same, with the pages of a bio of 128 KiB.
    Case {
        cost: c"cost-near_32",
        tasks: c"tasks-near_32",
        limit: 1 << 20,
        used: (1 << 20) - 32 * TASKS as u64,
        size: 32,
    },
    // All requests fail.
    Case {
        cost: c"cost-full",
        tasks: c"tasks-full",
        limit: 1 << 20,
        used: 1 << 20,
        size: 1,
    },
];

/// A limit mode.
trait Mode: Send + Sync + Sized + 'static {
    fn new(limit: u64) -> Result<Self>;

    /// Takes `count` credits if the check of this mode succeeds.
    fn take(&self, count: u64) -> bool;

    /// Takes `count` credits without a check.
    fn take_anyway(&self, count: u64);

    fn give_back(&self, count: u64);
}

/// The counter and the limit of the first two modes.
struct Counter {
    counter: Pin<KBox<PerCpuCounter>>,
    limit: i64,
}

impl Counter {
    fn new(limit: u64) -> Result<Self> {
        Ok(Self {
            counter: KBox::try_pin_init(PerCpuCounter::new(0), GFP_KERNEL)?,
            limit: limit.try_into().map_err(|_| EINVAL)?,
        })
    }

    #[inline]
    fn add(&self, count: u64) {
        // CAST: Far from 2^63.
        self.counter.add(count as i64);
    }

    #[inline]
    fn sub(&self, count: u64) {
        // CAST: As above.
        self.counter.sub(count as i64);
    }
}

struct Exact(Counter);

impl Mode for Exact {
    fn new(limit: u64) -> Result<Self> {
        Counter::new(limit).map(Self)
    }

    #[inline]
    fn take(&self, count: u64) -> bool {
        let admitted = self.0.counter.compare(self.0.limit).is_lt();

        if admitted {
            self.0.add(count);
        }
        admitted
    }

    fn take_anyway(&self, count: u64) {
        self.0.add(count);
    }

    #[inline]
    fn give_back(&self, count: u64) {
        self.0.sub(count);
    }
}

struct Approx(Counter);

impl Mode for Approx {
    fn new(limit: u64) -> Result<Self> {
        Counter::new(limit).map(Self)
    }

    #[inline]
    fn take(&self, count: u64) -> bool {
        let admitted = self.0.counter.compare_approx(self.0.limit).is_lt();

        if admitted {
            self.0.add(count);
        }
        admitted
    }

    fn take_anyway(&self, count: u64) {
        self.0.add(count);
    }

    #[inline]
    fn give_back(&self, count: u64) {
        self.0.sub(count);
    }
}

struct Credit(CreditCounter);

impl Mode for Credit {
    fn new(limit: u64) -> Result<Self> {
        CreditCounter::new(limit).map(Self)
    }

    #[inline]
    fn take(&self, count: u64) -> bool {
        self.0.try_charge(count)
    }

    fn take_anyway(&self, count: u64) {
        let _ = self.0.charge(count);
    }

    #[inline]
    fn give_back(&self, count: u64) {
        self.0.uncharge(count);
    }
}

/// Takes credits and returns them.
#[inline]
fn request<M: Mode>(mode: &M, size: u64) {
    if black_box(mode.take(size)) {
        mode.give_back(size);
    }
}

fn prepared<M: Mode>(case: &Case) -> Result<M> {
    let mode = M::new(case.limit)?;

    mode.take_anyway(case.used);
    // Warms up the mode.
    for _ in 0..REQUESTS {
        request(&mode, case.size);
    }
    Ok(mode)
}

fn cost<M: Mode>(case: &Case, f: &mut fmt::Formatter<'_>) -> Result {
    let mode: M = prepared(case)?;

    for _ in 0..ROUNDS {
        let requests = black_box(REQUESTS);
        let begin = Instant::<Monotonic>::now();
        for _ in 0..requests {
            request(black_box(&mode), case.size);
        }
        let elapsed = begin.elapsed().as_nanos();
        writeln!(f, "{elapsed} {REQUESTS}")?;
    }
    Ok(())
}

fn tasks<M: Mode>(case: &Case, f: &mut fmt::Formatter<'_>) -> Result {
    let mode = Arc::new(prepared::<M>(case)?, GFP_KERNEL)?;

    let size = case.size;
    let elapsed = in_tasks(TASKS, &mode, move |mode| {
        for _ in 0..TASK_REQUESTS {
            request(mode, size);
        }
    })?;
    writeln!(f, "{elapsed} {}", TASKS * TASK_REQUESTS)?;
    Ok(())
}

fn admitted<M: Mode>(f: &mut fmt::Formatter<'_>) -> Result {
    static ADMITTED: Atomic<u64> = Atomic::new(0);

    let mode = Arc::new(M::new(SHARED)?, GFP_KERNEL)?;
    let before = ADMITTED.load(Relaxed);
    in_tasks(TASKS, &mode, |mode| {
        while mode.take(1) {
            ADMITTED.add(1_u64, Relaxed);
        }
    })?;
    let admitted = ADMITTED.load(Relaxed).wrapping_sub(before);
    writeln!(f, "{admitted} {SHARED}")?;
    Ok(())
}

/// The error of the approximate count after updates on all CPUs.
fn read(f: &mut fmt::Formatter<'_>) -> Result {
    let mode = Arc::new(Approx::new(0)?, GFP_KERNEL)?;
    in_tasks(TASKS, &mode, |mode| {
        for count in 0..TASK_REQUESTS {
            // CAST: The value is small.
            mode.0.add(count as u64 % 7);
        }
    })?;
    let counter = &mode.0.counter;
    let error = counter.read().abs_diff(counter.sum());
    let bound = PerCpuCounter::error_bound(PerCpuCounter::default_batch(), cpu::nr_cpu_ids());
    writeln!(f, "{error} {bound}")?;
    Ok(())
}

/// Adds the files of a mode to its directory.
fn add_files<M: Mode>(dir: &ScopedDir<'_, '_>) {
    for case in &CASES {
        dir.read_callback_file(case.cost, case, &|case, f| or_error(cost::<M>(case, f)));
        dir.read_callback_file(case.tasks, case, &|case, f| or_error(tasks::<M>(case, f)));
    }
    dir.read_callback_file(c"admitted", &(), &|(), f| or_error(admitted::<M>(f)));
}

/// Converts an error to that of `fmt`.
fn or_error(result: Result) -> fmt::Result {
    result.map_err(|_| fmt::Error)
}

#[pin_data]
struct LimiterModule {
    #[pin]
    _files: Scope<()>,
}

impl kernel::InPlaceModule for LimiterModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _files <- Scope::dir((), c"bench_limiter", |(), dir| {
                add_files::<Exact>(&dir.dir(c"exact"));
                add_files::<Approx>(&dir.dir(c"approx"));
                add_files::<Credit>(&dir.dir(c"credit"));
                dir.read_callback_file(c"read", &(), &|(), f| or_error(read(f)));
            }),
        })
    }
}
