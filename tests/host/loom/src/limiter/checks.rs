// SPDX-License-Identifier: GPL-2.0

//! The guarantees of a pool of credits, in every interleaving of a few calls.
//!
//! Included next to each `pool` module, the right one and the mutants.

use super::pool::{
    Pool,
    Slots, //
};

use crate::atomic::Atomic;

use loom::{
    cell::UnsafeCell,
    thread, //
};

use std::{
    cell::Cell,
    sync::{
        atomic::{
            AtomicI64,
            Ordering::Relaxed, //
        },
        Arc, //
    },
};

/// Small enough that a slot gets credits far below a limit of 8.
const CPUS: usize = 2;

loom::thread_local! {
    static CPU: Cell<usize> = Cell::new(0);
    /// Whether the thread is on the other CPU at each query.
    static MOVES: Cell<bool> = Cell::new(false);
}

fn be_on(cpu: usize) {
    CPU.with(|mine| mine.set(cpu));
}

struct Cpus([Atomic<i64>; CPUS]);

impl Slots for Cpus {
    fn local(&self) -> &Atomic<i64> {
        let cpu = CPU.with(Cell::get);
        if MOVES.with(Cell::get) {
            be_on(1 - cpu);
        }
        &self.0[cpu]
    }

    fn for_each(&self, f: impl FnMut(&Atomic<i64>)) {
        self.0.iter().for_each(f);
    }
}

/// A pool, and the credits in use. The checker does not track these counts.
struct Checked {
    pool: Pool<Cpus>,
    used: AtomicI64,
    /// The largest limit that is or was in force during any running call.
    bound: AtomicI64,
}

impl Checked {
    fn new(limit: i64) -> Arc<Self> {
        let slots = Cpus([Atomic::new(0), Atomic::new(0)]);
        Arc::new(Self {
            pool: Pool::new(limit, slots, CPUS),
            used: AtomicI64::new(0),
            bound: AtomicI64::new(limit),
        })
    }

    fn acquire(&self, count: i64) -> bool {
        let admitted = self.pool.acquire(count);
        if admitted {
            let used = self.used.fetch_add(count, Relaxed) + count;
            assert!(used <= self.bound.load(Relaxed), "{used} in use");
        }
        admitted
    }

    fn release(&self, count: i64) {
        self.used.fetch_sub(count, Relaxed);
        self.pool.release(count);
    }

    /// Parks a credit in the slot of a CPU.
    fn park_on(&self, cpu: usize) {
        be_on(cpu);
        assert!(self.acquire(1));
        let open = self.pool.open();
        self.release(1);
        assert_eq!(self.pool.open(), open, "nothing is parked");
        be_on(0);
    }

    /// Must be called when no other thread runs: checks that all credits are accounted for.
    fn check_at_rest(&self) {
        let used = self.used.load(Relaxed);
        let limit = self.pool.limit();

        assert_eq!(self.pool.in_use(), used, "lost or made credits");
        assert!(!self.acquire(limit - used + 1), "too large a request");
        assert_eq!(self.pool.open(), 0, "a refusal leaves open slots");
        if limit > used {
            assert!(self.acquire(limit - used), "refused what is free");
            self.release(limit - used);
        }
        assert_eq!(self.pool.in_use(), used, "lost or made credits at rest");
    }
}

/// Runs `f` in every interleaving with few preemptions, which suffice for most defects.
fn explore(f: impl Fn() + Send + Sync + 'static) {
    explore_preempted(2, f);
}

/// Runs `f` in every interleaving with at most `preemptions` preemptions.
fn explore_preempted(preemptions: usize, f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

/// Runs `first` and `second` at the same time on a pool of `limit` credits, and then checks it.
fn race(
    limit: i64,
    before: fn(&Checked),
    cpus: [usize; 2],
    threads: [fn(&Checked); 2],
) -> Arc<Checked> {
    let pool = Checked::new(limit);
    before(&pool);
    let [first, second] = threads;
    let other = {
        let pool = pool.clone();
        thread::spawn(move || {
            be_on(cpus[1]);
            second(&pool);
        })
    };
    be_on(cpus[0]);
    first(&pool);
    other.join().unwrap();
    pool.check_at_rest();
    pool
}

/// Takes single credits until that fails.
fn saturate(pool: &Checked) {
    while pool.acquire(1) {}
}

/// Takes and releases credits.
fn use_some(pool: &Checked, count: i64) -> bool {
    let admitted = pool.acquire(count);
    if admitted {
        pool.release(count);
    }
    admitted
}

/// The admission error is 0, whichever slots hold the credits at the start.
fn saturated_is_exactly_the_limit() {
    for (limit, before) in [
        (3, (|_| ()) as fn(&Checked)),
        (6, |_| ()),
        (16, |pool| {
            pool.park_on(1);
            assert!(pool.acquire(12));
        }),
        (16, |pool| {
            pool.park_on(0);
            pool.park_on(1);
            assert!(pool.acquire(12));
        }),
    ] {
        explore(move || {
            let pool = race(limit, before, [0, 1], [saturate, saturate]);
            assert_eq!(pool.used.load(Relaxed), limit);
        });
    }
}

fn credits_are_neither_lost_nor_made() {
    for cpus in [[0, 1], [0, 0]] {
        for limit in [2, 8, 16] {
            explore(move || {
                race(
                    limit,
                    |_| (),
                    cpus,
                    [
                        |pool| {
                            use_some(pool, 1);
                        },
                        |pool| {
                            use_some(pool, 2);
                        },
                    ],
                );
            });
        }
    }
}

fn everything_is_collected_while_slots_are_in_use() {
    for cpus in [[0, 1], [0, 0]] {
        for limit in [16, 32] {
            explore(move || {
                race(
                    limit,
                    |pool| pool.park_on(0),
                    cpus,
                    [
                        |pool| {
                            use_some(pool, pool.pool.limit());
                        },
                        |pool| {
                            use_some(pool, 1);
                            use_some(pool, 1);
                        },
                    ],
                );
            });
        }
    }
}

fn tasks_may_move_at_any_time() {
    explore(|| {
        race(
            16,
            |pool| pool.park_on(1),
            [0, 0],
            [
                |pool| {
                    MOVES.with(|moves| moves.set(true));
                    use_some(pool, 1);
                    use_some(pool, 2);
                    MOVES.with(|moves| moves.set(false));
                },
                |pool| {
                    use_some(pool, 1);
                },
            ],
        );
    });
}

/// The new holder of credits sees the writes of their earlier holders: a task with all credits is
/// exclusive, and sees the writes of tasks with one.
fn credits_carry_what_was_done_with_them() {
    const LIMIT: i64 = 32;

    fn write_alone(pool: &Checked, cell: &UnsafeCell<u32>) {
        if pool.acquire(LIMIT) {
            // SAFETY: Only a holder of all credits accesses it.
            cell.with_mut(|cell| unsafe { *cell += 1 });
            pool.release(LIMIT);
        }
    }
    fn read(pool: &Checked, cell: &UnsafeCell<u32>) {
        if pool.acquire(1) {
            // SAFETY: No task has all credits while this thread has one.
            cell.with(|cell| assert!(unsafe { *cell } < 3));
            pool.release(1);
        }
    }
    fn read_twice(pool: &Checked, cell: &UnsafeCell<u32>) {
        read(pool, cell);
        read(pool, cell);
    }
    type Thread = fn(&Checked, &UnsafeCell<u32>);
    fn write_and_read(pool: &Checked, cell: &UnsafeCell<u32>) {
        write_alone(pool, cell);
        read(pool, cell);
    }
    // The CPU of the other thread, whether slots open only for a refill, and the threads.
    let runs: [(usize, bool, [Thread; 2]); 5] = [
        (1, false, [write_alone, write_alone]),
        (1, false, [read_twice, write_alone]),
        (0, false, [read_twice, write_alone]),
        (0, false, [write_and_read, read]),
        (0, true, [write_and_read, read]),
    ];
    for (cpu, is_paced, [first, second]) in runs {
        explore(move || {
            let cell = Arc::new(UnsafeCell::new(0));
            let pool = Checked::new(LIMIT);
            if is_paced {
                pool.park_on(0);
                assert!(!pool.acquire(LIMIT + 1), "too large a request");
            }
            let other = {
                let (pool, cell) = (pool.clone(), cell.clone());
                thread::spawn(move || {
                    be_on(cpu);
                    second(&pool, &cell);
                })
            };
            first(&pool, &cell);
            other.join().unwrap();
            pool.check_at_rest();
        });
    }
}

/// A task with all credits that writes, and tasks with one credit that read.
struct Shared {
    pool: Arc<Checked>,
    cell: UnsafeCell<u32>,
}

impl Shared {
    /// The number of credits for which both the slot of CPU 0 and the state have some to collect.
    const LIMIT: i64 = 32;

    /// Parks credits in the slot of CPU 0, and takes one of them.
    fn with_a_holder() -> Arc<Self> {
        let pool = Checked::new(Self::LIMIT);
        pool.park_on(0);
        assert!(pool.acquire(1));
        Arc::new(Self {
            pool,
            cell: UnsafeCell::new(0),
        })
    }

    /// Reads, and releases the credit to the slot of CPU 0.
    fn read_and_release(&self) {
        // SAFETY: No task has all credits while this thread has one.
        self.cell.with(|cell| assert!(unsafe { *cell } < 2));
        self.pool.release(1);
    }

    /// Writes, if no other task has a credit.
    fn write_alone(&self) {
        if self.pool.acquire(Self::LIMIT) {
            // SAFETY: Only a holder of all credits accesses it.
            self.cell.with_mut(|cell| unsafe { *cell += 1 });
            self.pool.release(Self::LIMIT);
        }
    }

    /// Runs `threads` and a reader at the same time, with at most `preemptions` preemptions.
    fn race<const N: usize>(preemptions: usize, others: [fn(&Self); N]) {
        explore_preempted(preemptions, move || {
            let shared = Self::with_a_holder();
            let others = others.map(|other| {
                let shared = shared.clone();
                thread::spawn(move || {
                    be_on(0);
                    other(&shared);
                })
            });
            shared.read_and_release();
            for other in others {
                other.join().unwrap();
            }
            shared.pool.check_at_rest();
        });
    }
}

/// A task that returns credits above the limit frees those of others in its slot, which may have
/// just been parked, and closes the slot. A task that takes all credits does not search that slot
/// any more.
fn spilled_credits_carry_what_was_done_with_them() {
    /// More than the free credits, also after the parked ones are freed.
    const MOST: i64 = 40;

    // The reader must see free credits before another task takes them, and park before the slot is
    // closed.
    let spill: fn(&Shared) = |shared| {
        let pool = &shared.pool.pool;
        assert!(pool.charge(MOST));
        pool.release(1);
        pool.release(MOST - 1);
        shared.write_alone();
    };
    Shared::race(3, [spill]);
}

/// A task that collects parked credits and is still refused frees them.
fn refused_credits_carry_what_was_done_with_them() {
    Shared::race(
        2,
        [
            |shared| {
                assert!(
                    !shared.pool.acquire(Shared::LIMIT + 1),
                    "too large a request"
                )
            },
            Shared::write_alone,
        ],
    );
}

/// After the call that lowers a limit returns, nothing is admitted above the new limit.
fn lower_limit_holds_at_once() {
    for cpus in [[0, 1], [0, 0]] {
        explore(move || {
            race(
                16,
                |pool| pool.park_on(0),
                cpus,
                [
                    |pool| {
                        if pool.acquire(1) {
                            // Keeps one credit.
                            pool.acquire(1);
                        }
                    },
                    |pool| {
                        assert!(pool.pool.set_limit(1));
                        // The other thread may have two credits, or be about to.
                        if pool.pool.acquire(1) {
                            let used = pool.used.fetch_add(1, Relaxed) + 1;
                            assert!(used <= 1, "{used} in use of 1");
                        }
                    },
                ],
            );
        });
    }
}

fn over_the_limit_nothing_is_admitted() {
    explore(|| {
        let pool = Checked::new(16);
        pool.park_on(0);
        pool.park_on(1);
        assert!(pool.acquire(10));
        assert!(pool.pool.set_limit(5));
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                be_on(1);
                pool.release(5);
                assert!(!pool.acquire(1), "more than a lower limit");
            })
        };
        assert!(!pool.acquire(1), "more than a lower limit");
        other.join().unwrap();
        pool.release(1);
        assert!(pool.acquire(1));
        pool.check_at_rest();
        pool.release(5);
        pool.check_at_rest();
    });
}

/// Two limits are set at once: the larger one is never exceeded in either order.
fn limits_set_at_once_do_not_add_up() {
    for limits in [[2, 6], [6, 6]] {
        explore(move || {
            let pool = Checked::new(4);
            pool.bound.store(6, Relaxed);
            let threads = limits.map(|limit| {
                let pool = pool.clone();
                thread::spawn(move || assert!(pool.pool.set_limit(limit)))
            });
            assert!(!pool.acquire(7), "more than any limit");
            for thread in threads {
                thread.join().unwrap();
            }
            pool.check_at_rest();
        });
    }
}

/// Credits that are charged without a limit check count like all others.
fn charged_credits_count() {
    explore(|| {
        let pool = race(
            16,
            |pool| {
                pool.park_on(1);
                pool.bound.store(18, Relaxed);
            },
            [0, 1],
            [
                |pool| {
                    assert!(pool.pool.charge(17));
                    pool.used.fetch_add(17, Relaxed);
                    assert!(!pool.pool.acquire(1), "admitted above the limit");
                },
                |pool| {
                    use_some(pool, 1);
                },
            ],
        );
        pool.pool.uncharge(17);
        pool.used.fetch_sub(17, Relaxed);
        pool.check_at_rest();
    });
}

/// Three tasks, two of them on one CPU: collectors may meet while the third refills.
fn three_tasks_get_exactly_the_limit() {
    for (limit, before) in [
        (2, (|_| ()) as fn(&Checked)),
        (16, |pool| {
            pool.park_on(1);
            assert!(pool.acquire(13));
        }),
    ] {
        explore(move || {
            let pool = Checked::new(limit);
            before(&pool);
            let others = [0, 1].map(|cpu| {
                let pool = pool.clone();
                thread::spawn(move || {
                    be_on(cpu);
                    saturate(&pool);
                })
            });
            be_on(0);
            saturate(&pool);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(pool.used.load(Relaxed), limit);
            pool.check_at_rest();
        });
    }
}

/// One task takes and releases, one collects, and one changes the limit.
fn nothing_is_lost_among_three_kinds_of_calls() {
    for limit in [1, 20] {
        explore(move || {
            let pool = Checked::new(16);
            pool.bound.store(limit.max(16), Relaxed);
            pool.park_on(1);
            let threads: [fn(&Checked, i64); 2] = [
                |pool, _| {
                    be_on(1);
                    use_some(pool, 1);
                },
                |pool, limit| assert!(pool.pool.set_limit(limit)),
            ];
            let threads = threads.map(|thread| {
                let pool = pool.clone();
                thread::spawn(move || thread(&pool, limit))
            });
            use_some(&pool, 15);
            for thread in threads {
                thread.join().unwrap();
            }
            pool.check_at_rest();
        });
    }
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    (
        "saturated_is_exactly_the_limit",
        saturated_is_exactly_the_limit,
    ),
    (
        "credits_are_neither_lost_nor_made",
        credits_are_neither_lost_nor_made,
    ),
    (
        "everything_is_collected_while_slots_are_in_use",
        everything_is_collected_while_slots_are_in_use,
    ),
    ("tasks_may_move_at_any_time", tasks_may_move_at_any_time),
    (
        "credits_carry_what_was_done_with_them",
        credits_carry_what_was_done_with_them,
    ),
    (
        "spilled_credits_carry_what_was_done_with_them",
        spilled_credits_carry_what_was_done_with_them,
    ),
    (
        "refused_credits_carry_what_was_done_with_them",
        refused_credits_carry_what_was_done_with_them,
    ),
    ("lower_limit_holds_at_once", lower_limit_holds_at_once),
    (
        "over_the_limit_nothing_is_admitted",
        over_the_limit_nothing_is_admitted,
    ),
    (
        "limits_set_at_once_do_not_add_up",
        limits_set_at_once_do_not_add_up,
    ),
    ("charged_credits_count", charged_credits_count),
    (
        "three_tasks_get_exactly_the_limit",
        three_tasks_get_exactly_the_limit,
    ),
    (
        "nothing_is_lost_among_three_kinds_of_calls",
        nothing_is_lost_among_three_kinds_of_calls,
    ),
];
