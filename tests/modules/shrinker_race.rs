// SPDX-License-Identifier: GPL-2.0

//! Registers and unregisters shrinkers, and counts calls after unregistration.
//!
//! ```sh
//! cd /sys/kernel/debug/shrinker_race
//! echo 1000 >run                   # runs 1000 rounds in this task; several tasks may run
//! cat result                       # rounds 1000 calls 1234 late 0 kept 0
//! ```
//!
//! Another task must trigger the shrinkers: by `drop_caches`, or the files in `shrinker/` of
//! debugfs.

#![forbid(unsafe_code)]

use kernel::{
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
        delay::fsleep,
        Delta, //
    },
    uaccess::UserSliceReader, //
};

use core::{
    mem::forget,
    str, //
};

use kscale::{
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    mm::shrinker::{
        Callbacks,
        Count,
        Flags,
        Scan,
        ScanControl,
        ShrinkControl,
        Shrinker, //
    }, //
};

module! {
    type: RaceModule,
    name: "shrinker_race",
    authors: ["The kscale authors"],
    description: "Shrinkers that come and go, for tests",
    license: "GPL",
    params: {
        leak: bool {
            default: false,
            description: "Leak a registration when the module is loaded",
        },
    },
}

struct RaceModule {
    _files: Dir<Totals>,
}

impl kernel::Module for RaceModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        if module_parameters::leak.value() {
            forget(shrinker()?.register(Arc::new(Cache::new(), GFP_KERNEL)?)?);
        }
        let totals = Arc::new(Totals::new(), GFP_KERNEL)?;
        Ok(Self {
            _files: Dir::new(c"shrinker_race", totals)?,
        })
    }
}

#[vtable]
impl Files for Totals {
    const FILES: &'static [File<Self>] = &[
        File::write_only(c"run", run),
        File::read_only(c"result", result),
    ];
}

/// The results of all rounds.
struct Totals {
    rounds: Atomic<usize>,
    calls: Atomic<usize>,
    /// Calls that ran or began after the registration was dropped.
    late: Atomic<usize>,
    /// Caches to which a reference existed after that.
    kept: Atomic<usize>,
}

impl Totals {
    const fn new() -> Self {
        Self {
            rounds: Atomic::new(0),
            calls: Atomic::new(0),
            late: Atomic::new(0),
            kept: Atomic::new(0),
        }
    }

    /// Registers a shrinker for a moment.
    fn round(&self, number: usize) -> Result {
        let cache = Arc::new(Cache::new(), GFP_KERNEL)?;
        let registration = shrinker()?.register(cache.clone())?;
        // Some are unregistered at once, others after they may have been called.
        fsleep(Delta::from_micros((number % 8 * 50) as i64));
        drop(registration);

        cache.is_gone.store(true, Relaxed);
        self.rounds.add(1, Relaxed);
        self.calls.add(cache.calls.load(Relaxed), Relaxed);
        let late = cache.running.load(Relaxed) + cache.late.load(Relaxed);
        self.late.add(late, Relaxed);
        if Arc::into_unique_or_drop(cache).is_none() {
            self.kept.add(1, Relaxed);
        }
        Ok(())
    }
}

fn shrinker() -> Result<Shrinker> {
    Shrinker::new(c"kscale_race", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)
}

/// A cache that always reports objects to free.
struct Cache {
    calls: Atomic<usize>,
    running: Atomic<usize>,
    is_gone: Atomic<bool>,
    late: Atomic<usize>,
}

impl Cache {
    const fn new() -> Self {
        Self {
            calls: Atomic::new(0),
            running: Atomic::new(0),
            is_gone: Atomic::new(false),
            late: Atomic::new(0),
        }
    }

    fn call(&self) {
        self.running.add(1, Relaxed);
        // Some calls sleep.
        if self.calls.fetch_add(1, Relaxed) % 4 == 1 {
            fsleep(Delta::from_micros(100));
        }
        if self.is_gone.load(Relaxed) {
            self.late.add(1, Relaxed);
        }
        self.running.fetch_sub(1, Relaxed);
    }
}

#[vtable]
impl Callbacks for Cache {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        self.call();
        Count::new(2)
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        self.call();
        Scan::freed_of(1, control.nr_to_scan())
    }
}

/// `<rounds>`
fn run(totals: &Totals, reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; 16];
    let line = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(line)?;
    let line = str::from_utf8(line).map_err(|_| EINVAL)?;
    let rounds: usize = line.trim().parse().map_err(|_| EINVAL)?;

    (0..rounds).try_for_each(|number| totals.round(number))
}

fn result(totals: &Totals, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "rounds {} calls {} late {} kept {}",
        totals.rounds.load(Relaxed),
        totals.calls.load(Relaxed),
        totals.late.load(Relaxed),
        totals.kept.load(Relaxed)
    )
}
