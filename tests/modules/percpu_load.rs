// SPDX-License-Identifier: GPL-2.0

//! Tasks that add to every kind of per-CPU counter while the module is loaded, for tests with CPU
//! hotplug.
//!
//! ```text
//! # cat /sys/kernel/debug/percpu_load/running
//! adds 123456
//! # cat /sys/kernel/debug/percpu_load/result
//! wanted 32896 counter 32896 local 32896 ints 32896 atomics 32896 torn 0 excess 0 left 1000
//! ```
//!
//! Reading `result` ends the tasks.

#![forbid(unsafe_code)]

use kernel::{
    cpu,
    fmt,
    impl_has_work,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Completion, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use core::cell::Cell;

use kscale::{
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    percpu::{
        counter::{
            LocalPerCpuCounter,
            PerCpuCounter, //
        },
        limiter::CreditCounter,
        with_interrupts_disabled,
        PerCpu,
        PerCpuInts, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

module! {
    type: LoadModule,
    name: "percpu_load",
    authors: ["The kscale authors"],
    description: "Updates per-CPU data on all CPUs, for tests",
    license: "GPL",
}

/// Additions between two checks for the end.
const ROUNDS: i64 = 256;

/// The credits of the limiter.
const CREDITS: u64 = 1000;

/// The counters that the tasks add to.
#[pin_data]
struct Numbers {
    is_over: Atomic<bool>,
    /// The expected sum of each counter, as the tasks count it.
    wanted: Atomic<i64>,
    #[pin]
    counter: PerCpuCounter,
    #[pin]
    local: LocalPerCpuCounter,
    ints: PerCpuInts<i64, 1>,
    atomics: PerCpu<Atomic<i64>>,
    /// Two equal numbers per CPU. They differ only while a task changes both.
    pairs: PerCpu<(Cell<i64>, Cell<i64>)>,
    /// The number of pairs that were seen unequal.
    torn: Atomic<i64>,
    /// A limiter with so few credits that some requests fail.
    limiter: CreditCounter,
    /// Credits in use, as the tasks count them. Must not exceed the limit.
    in_use: Atomic<i64>,
    /// How often the credits in use exceeded the limit.
    excess: Atomic<i64>,
}

impl Numbers {
    fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            is_over: Atomic::new(false),
            wanted: Atomic::new(0),
            counter <- PerCpuCounter::new(0),
            local <- LocalPerCpuCounter::new(0),
            ints: PerCpuInts::new()?,
            atomics: PerCpu::new(|_| Ok(Atomic::new(0)))?,
            pairs: PerCpu::new(|_| Ok((Cell::new(0), Cell::new(0))))?,
            torn: Atomic::new(0),
            limiter: CreditCounter::new(CREDITS)?,
            in_use: Atomic::new(0),
            excess: Atomic::new(0),
        })
    }

    /// Adds to each counter until the end.
    fn load(&self) {
        while !self.is_over.load(Relaxed) {
            for amount in 1..=ROUNDS {
                self.counter.add(amount);
                self.local.add(amount);
                self.ints.at::<0>().add(amount);
                self.atomics.get_cpu().add(amount, Relaxed);

                self.take_credits(amount);

                with_interrupts_disabled(|interrupts_off| {
                    let (first, second) = self.pairs.this_cpu(interrupts_off);
                    let number = first.get();
                    first.set(number + amount);
                    if second.replace(number + amount) != number {
                        self.torn.add(1, Relaxed);
                    }
                });
            }
            self.wanted.add(ROUNDS * (ROUNDS + 1) / 2, Relaxed);
        }
    }
}

impl Numbers {
    /// Acquires credits, and releases them.
    fn take_credits(&self, amount: i64) {
        let wanted = amount.unsigned_abs() % (CREDITS / 4);
        if !self.limiter.try_charge(wanted) {
            return;
        }
        let count = i64::try_from(wanted).unwrap_or_default();
        if self.in_use.fetch_add(count, Relaxed) + count > CREDITS as i64 {
            self.excess.add(1, Relaxed);
        }
        self.in_use.add(-count, Relaxed);
        self.limiter.uncharge(wanted);
    }
}

/// A work item that runs one task.
#[pin_data]
struct Task {
    numbers: Arc<Numbers>,
    #[pin]
    ended: Completion,
    #[pin]
    work: Work<Task>,
}

impl_has_work! {
    impl HasWork<Self> for Task { self.work }
}

impl WorkItem for Task {
    type Pointer = Arc<Task>;

    fn run(this: Arc<Task>) {
        this.numbers.load();
        this.ended.complete_all();
    }
}

/// All tasks, and their counters.
struct Load {
    numbers: Arc<Numbers>,
    tasks: KVec<Arc<Task>>,
}

impl Load {
    /// Starts twice as many tasks as there are CPUs.
    fn start(queue: &Workqueue) -> Result<Self> {
        let mut load = Self {
            numbers: Arc::pin_init(Numbers::new(), GFP_KERNEL)?,
            tasks: KVec::new(),
        };
        for _ in 0..2 * cpu::nr_cpu_ids() {
            let numbers = load.numbers.clone();
            let task = Arc::pin_init(
                pin_init!(Task {
                    numbers,
                    ended <- Completion::new(),
                    work <- new_work!("percpu_load::Task"),
                }),
                GFP_KERNEL,
            )?;
            load.tasks.push(task.clone(), GFP_KERNEL)?;
            // It is new, so it is not queued yet.
            let _ = queue.enqueue(task);
        }
        Ok(load)
    }

    /// Ends the tasks, and waits for them.
    fn end(&self) {
        self.numbers.is_over.store(true, Relaxed);
        for task in &self.tasks {
            task.ended.wait_for_completion();
        }
    }

    fn write_running(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "adds {}", self.numbers.wanted.load(Relaxed))
    }

    fn write_result(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.end();
        let numbers = &self.numbers;
        let atomics: i64 = numbers.atomics.iter().map(|(_, n)| n.load(Relaxed)).sum();
        // All credits are released, so all of them can be acquired at once.
        let left = if numbers.limiter.try_charge(CREDITS) {
            numbers.limiter.uncharge(CREDITS);
            CREDITS
        } else {
            0
        };
        writeln!(
            f,
            "wanted {} counter {} local {} ints {} atomics {atomics} torn {} excess {} left {left}",
            numbers.wanted.load(Relaxed),
            numbers.counter.sum(),
            numbers.local.sum(),
            numbers.ints.at::<0>().sum(),
            numbers.torn.load(Relaxed),
            numbers.excess.load(Relaxed),
        )
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

#[vtable]
impl Files for Load {
    const FILES: &'static [File<Self>] = &[
        File::read_only(c"running", Self::write_running),
        File::read_only(c"result", Self::write_result),
    ];
}

struct LoadModule {
    _files: Dir<Load>,
    /// Dropped last: waits until no task runs code of this module.
    _queue: Workqueue,
}

impl kernel::Module for LoadModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let queue = Workqueue::new(c"percpu_load", Flags::UNBOUND, 2 * cpu::nr_cpu_ids())?;
        let load = Arc::new(Load::start(&queue)?, GFP_KERNEL)?;

        Ok(Self {
            _files: Dir::new(c"percpu_load", load)?,
            _queue: queue,
        })
    }
}
