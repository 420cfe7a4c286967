// SPDX-License-Identifier: GPL-2.0

//! Limits on pages, near and far from the limit: the algorithm of the library, which this program
//! compiles as the kernel does, and the two comparisons of a `percpu_counter`.

use std::cell::{
    Cell,
    RefCell, //
};

use crate::{
    atomic::{
        self,
        self as hint,
        Atomic,
        Relaxed, //
    },
    machine::{
        self,
        Counts, //
    },
    percpu_counter::PerCpuCounter,
    turns::{
        self,
        Random, //
    }, //
};

#[path = "../../rust/percpu/limiter/pacing.rs"]
mod pacing;
#[path = "../../rust/percpu/limiter/pool.rs"]
mod pool;

use pool::{
    Pool,
    Slots, //
};

/// The slot of a CPU, in memory of that CPU.
#[repr(align(64))]
struct Slot(Atomic<i64>);

struct CpuSlots {
    /// The pointer to the slots, a field of the pool.
    pointer: Atomic<()>,
    slots: Box<[Slot]>,
}

impl Slots for CpuSlots {
    fn local(&self) -> &Atomic<i64> {
        self.pointer.load(Relaxed);
        &self.slots[turns::cpu()].0
    }

    fn for_each(&self, f: impl FnMut(&Atomic<i64>)) {
        self.slots.iter().map(|slot| &slot.0).for_each(f);
    }
}

/// A limit mode, as in `bench/limiter.rs`.
trait Mode {
    fn new(limit: i64, cpus: usize) -> Self;
    fn take(&self, count: i64) -> bool;
    fn take_anyway(&self, count: i64);
    fn give_back(&self, count: i64);
}

#[repr(align(64))]
struct Aligned(Pool<CpuSlots>);

struct Credit(Box<Aligned>);

impl Mode for Credit {
    fn new(limit: i64, cpus: usize) -> Self {
        let slots: Box<[_]> = (0..cpus).map(|_| Slot(Atomic::new(0))).collect();
        slots.iter().for_each(|slot| machine::name(slot, "slots"));
        let slots = CpuSlots {
            pointer: Atomic::new(()),
            slots,
        };
        let pool = Box::new(Aligned(Pool::new(limit, slots, cpus)));
        machine::name(&*pool, "state");
        Self(pool)
    }

    fn take(&self, count: i64) -> bool {
        self.0 .0.acquire(count)
    }

    fn take_anyway(&self, count: i64) {
        assert!(self.0 .0.charge(count));
    }

    fn give_back(&self, count: i64) {
        self.0 .0.release(count);
    }
}

struct Exact(Box<PerCpuCounter>, i64);

impl Mode for Exact {
    fn new(limit: i64, cpus: usize) -> Self {
        Self(PerCpuCounter::new(cpus), limit)
    }

    fn take(&self, count: i64) -> bool {
        let admitted = self.0.is_less(self.1);
        if admitted {
            self.0.add(count);
        }
        admitted
    }

    fn take_anyway(&self, count: i64) {
        self.0.add(count);
    }

    fn give_back(&self, count: i64) {
        self.0.add(-count);
    }
}

struct Approx(Exact);

impl Mode for Approx {
    fn new(limit: i64, cpus: usize) -> Self {
        Self(Exact::new(limit, cpus))
    }

    fn take(&self, count: i64) -> bool {
        let admitted = self.0 .0.read() < self.0 .1;
        if admitted {
            self.0 .0.add(count);
        }
        admitted
    }

    fn take_anyway(&self, count: i64) {
        self.0.take_anyway(count);
    }

    fn give_back(&self, count: i64) {
        self.0.give_back(count);
    }
}

/// What the CPUs do, and how close to the limit.
struct Case {
    name: &'static str,
    /// Credits that are left at the start, for each CPU in hundredths; `None` for a large number.
    left: Option<i64>,
    /// Credits of a request.
    size: i64,
    /// Requests that a task makes before it returns their credits.
    depth: usize,
    /// Whether another CPU returns the credits of every second request.
    elsewhere: bool,
    /// Every how many requests one asks for more than there is; 0 for never.
    refused: usize,
}

const CASE: Case = Case {
    name: "far",
    left: None,
    size: 1,
    depth: 1,
    elsewhere: false,
    refused: 0,
};

const CASES: [Case; 9] = [
    CASE,
    // The nearest state in which the requests of all CPUs succeed.
    Case {
        name: "near",
        left: Some(100),
        ..CASE
    },
    // The same, with the pages of a bio of 128 KiB.
    Case {
        name: "near_32",
        left: Some(3200),
        size: 32,
        ..CASE
    },
    // The same, with four requests of each CPU at a time.
    Case {
        name: "near_4_deep",
        left: Some(400),
        depth: 4,
        ..CASE
    },
    // The credits suffice for the requests of half of the CPUs.
    Case {
        name: "scarce",
        left: Some(50),
        ..CASE
    },
    Case {
        name: "full",
        left: Some(0),
        ..CASE
    },
    Case {
        name: "elsewhere",
        elsewhere: true,
        ..CASE
    },
    Case {
        name: "near_elsewhere",
        left: Some(800),
        elsewhere: true,
        ..CASE
    },
    // One request in 1000 asks for more than the limit.
    Case {
        name: "far_refused",
        refused: 1000,
        ..CASE
    },
];

const FAR: i64 = 1 << 30;

/// The names of all lines.
const LINES: [&str; 4] = ["state", "lock_and_count", "slots", "lock_queue"];

/// The duration of a run, in requests of each CPU.
struct Length {
    warm_up: usize,
    measured: usize,
}

fn run<M: Mode>(case: &Case, cpus: usize, length: &Length) -> Counts {
    machine::start();
    let left = case.left.map(|left| left * cpus as i64 / 100);
    let mode = M::new(FAR, cpus);
    mode.take_anyway(FAR - left.unwrap_or(FAR));

    // Not in the memory of the model.
    let mailboxes = RefCell::new(vec![0_usize; cpus]);
    let random = RefCell::new(Random::new(7));
    let done = Cell::new(0);
    let used = Cell::new(0);
    let most = Cell::new(0);
    let (begin, end) = (
        length.warm_up * cpus,
        (length.warm_up + length.measured) * cpus,
    );
    let found = Cell::new(None);
    let request = || {
        let count = done.get() + 1;
        if case.refused != 0 && count % case.refused == 0 {
            mode.take(FAR + 1);
            return 0;
        }
        let admitted = mode.take(case.size);
        if admitted {
            used.set(used.get() + case.size);
            most.set(used.get().max(most.get()));
        }
        // The task uses what it took, which takes long.
        turns::pass();
        usize::from(admitted)
    };
    turns::run(cpus, 1, &|cpu| {
        while done.get() < end {
            let mut held: usize = (0..case.depth).map(|_| request()).sum();
            if case.elsewhere && random.borrow_mut().below(2) == 0 {
                let other = random.borrow_mut().below(cpus);
                mailboxes.borrow_mut()[other] += held;
                held = 0;
            }
            held += std::mem::take(&mut mailboxes.borrow_mut()[cpu]);
            for _ in 0..held {
                used.set(used.get() - case.size);
                mode.give_back(case.size);
                turns::pass();
            }
            // Requests that are under way at the begin and at the end count half.
            let before = done.get();
            done.set(before + case.depth);
            if before < begin && before + case.depth >= begin {
                machine::take_counts();
            }
            if before < end && before + case.depth >= end {
                found.set(Some(machine::take_counts()));
            }
        }
    });
    if let Some(left) = left.filter(|_| std::any::type_name::<M>().ends_with("Credit")) {
        assert!(most.get() <= left, "{} of {left} credits", most.get());
    }
    found.take().expect("all requests were made")
}

/// Prints the results of a case.
fn measure<M: Mode>(case: &Case, mode: &str, cpus: usize, quick: bool) {
    // Requests of each CPU. Sums of the counts of all CPUs take long, and are all alike.
    let requests = match (cpus, mode) {
        (1024.., "exact") => 1,
        (256.., "exact") => 4,
        (256.., _) => 200,
        _ => 400,
    };
    let length = Length {
        warm_up: requests,
        measured: if quick {
            requests.div_ceil(4)
        } else {
            requests
        },
    };
    let requests = (length.measured * cpus) as f64;
    let counts = run::<M>(case, cpus, &length);
    let name = case.name;
    let cell = |table: &str, row: &str, column: &str, count: usize| {
        println!(
            "result {table} {row} {column} {:.4}",
            count as f64 / requests
        );
    };
    let row = format!("{cpus}_cpus_{name}");
    cell("transfers", &row, mode, counts.transfers);
    cell("between_nodes", &row, mode, counts.between_nodes);
    if cpus != 256 {
        return;
    }
    cell("locks", name, mode, counts.locks);
    for line in LINES {
        let count = counts.by_line.get(line).copied().unwrap_or(0);
        cell("by_line", &format!("{name}_{mode}"), line, count);
    }
}

/// Prints the results of all cases.
pub(crate) fn measure_all(quick: bool, only: &str) {
    for cpus in [1, 2, 16, 64, 256, 1024] {
        for case in &CASES {
            if !format!("{cpus}_cpus_{}", case.name).contains(only) {
                continue;
            }
            measure::<Exact>(case, "exact", cpus, quick);
            measure::<Approx>(case, "approx", cpus, quick);
            measure::<Credit>(case, "credit", cpus, quick);
        }
    }
}
