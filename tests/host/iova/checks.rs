// SPDX-License-Identifier: GPL-2.0

//! The checks of the magazine cache and its policies.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        Mutex, //
    },
    thread, //
};

use crate::{
    results::Results,
    workload::{
        Timer,
        Workload, //
    }, //
};

use super::{
    array::{
        Pfn,
        MAGAZINE_SIZE, //
    },
    policy::Policy,
    rcache::Guarded,
    storm,
    tree::{
        cache,
        Cache,
        Tree,
        CPU, //
    }, //
};

pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("few_tree_allocs_where_fixed_needs_hundreds", few_allocs),
    ("one_burst_is_over_within_1000_ios", one_burst),
    ("adaptive_is_no_worse_than_trimmed", cells),
    ("adaptive_takes_a_third_of_the_memory_of_trimmed", third),
    ("adaptive_is_no_worse_with_other_workloads", other_workloads),
    ("unused_ranges_are_freed_in_a_pause", pauses),
    ("workloads_are_parsed", workloads_are_parsed),
    ("no_range_is_lost_or_there_twice", no_range_is_lost),
    ("no_range_is_lost_without_memory", no_memory),
    ("no_range_is_lost_between_threads", threads),
    ("ranges_fit_below_the_limit", limits),
    ("a_depot_keeps_what_its_policy_says", depots),
];

fn of(policy: Policy, results: &[(Policy, Results)]) -> Results {
    results.iter().find(|it| it.0 == policy).unwrap().1
}

/// Operations on the tree per 1000 I/Os, in hundredths.
fn ops(results: &Results) -> usize {
    results.centi_per_1000(results.sums.tree_ops())
}

fn few_allocs() {
    // All ranges are freed by the timer.
    let results = storm::run_all(&Workload {
        walk: Some(0),
        ..Workload::MAIL
    });
    let allocs = |policy| {
        let results = of(policy, &results);
        results.centi_per_1000(results.sums.tree_allocs)
    };

    for policy in [Policy::Adaptive, Policy::Scaled, Policy::Trimmed] {
        assert!(allocs(policy) <= 100);
    }
    for policy in [Policy::FixedDrop, Policy::FixedFlush] {
        assert!(allocs(policy) >= 100_00);
    }
}

fn one_burst() {
    let load = Workload {
        timer: Timer::Once,
        ..Workload::MAIL
    };
    let results = storm::run_all(&load);
    let disturbed = |policy| of(policy, &results).recovery.disturbed_ios();

    assert!(disturbed(Policy::Adaptive) <= 1000);
    // Otherwise the check is ineffective.
    assert!(disturbed(Policy::Trimmed) > 1000);
}

/// Asserts that `adaptive` has few operations on the tree, or no more than the policy of Linux 7.3,
/// and at most `percent` of its memory.
fn no_worse_than_trimmed(load: &Workload, percent: usize) {
    /// Hundredths of operations per 1000 I/Os.
    const FEW: usize = 50;
    let adaptive = storm::run(load, Policy::Adaptive);
    let trimmed = storm::run(load, Policy::Trimmed);

    let about = format!("{load:?}\n{adaptive:?}\n{trimmed:?}");
    assert!(ops(&adaptive) <= ops(&trimmed).max(FEW), "{about}");
    assert!(
        adaptive.peak_bytes * 100 <= trimmed.peak_bytes * percent,
        "{about}"
    );
}

fn cells() {
    for cpus in [16, 32, 64, 128] {
        for sizes in [1, 2, 6] {
            for walk in [Some(0), None] {
                let load = Workload {
                    cpus,
                    sizes,
                    walk,
                    periods: 300,
                    ..Workload::MAIL
                };
                no_worse_than_trimmed(&load, 100);
            }
        }
    }
}

fn third() {
    let load = Workload {
        cpus: 256,
        sizes: 6,
        periods: 800,
        ..Workload::MAIL
    };

    no_worse_than_trimmed(&load, 33);
}

fn other_workloads() {
    let mail = Workload::MAIL;
    let rows = [
        Workload {
            timer: Timer::Never,
            ..mail
        },
        Workload {
            timer: Timer::Once,
            ..mail
        },
        Workload { shift: 1, ..mail },
        Workload {
            shift: 32,
            sizes: 2,
            ..mail
        },
        Workload {
            ops: (10, 30),
            ..mail
        },
        Workload {
            ops: (0, 300),
            ..mail
        },
        Workload {
            ops: (300, 500),
            ..mail
        },
        Workload {
            busy: 20,
            pause: 30,
            ..mail
        },
        Workload { cpus: 1, ..mail },
        Workload {
            cpus: 2,
            sizes: 6,
            ..mail
        },
    ];

    for load in rows {
        no_worse_than_trimmed(&load, 120);
    }
}

/// Two windows of the depot without I/O: what was not used is freed.
fn pauses() {
    let load = Workload {
        busy: 100,
        pause: 9900,
        periods: 9900,
        ..Workload::MAIL
    };
    let left = |policy| storm::end(&load, policy);

    assert!(4 * left(Policy::Adaptive) < left(Policy::Scaled));
    assert!(left(Policy::Trimmed) <= left(Policy::Scaled));
}

fn workloads_are_parsed() {
    let parse = |line: &str| Workload::parse(line.split_ascii_whitespace());
    let mail = Workload::MAIL;
    let rows = [
        ("", Some(mail)),
        ("cpus=1", Some(Workload { cpus: 1, ..mail })),
        (
            "cpus=256 sizes=6",
            Some(Workload {
                cpus: 256,
                sizes: 6,
                ..mail
            }),
        ),
        ("cpus=0", None),
        ("cpus=257", None),
        ("sizes=0", None),
        ("sizes=7", None),
        (
            "ops=5",
            Some(Workload {
                ops: (5, 5),
                ..mail
            }),
        ),
        (
            "ops=0-1000",
            Some(Workload {
                ops: (0, 1000),
                ..mail
            }),
        ),
        ("ops=6-5", None),
        ("ops=5-", None),
        ("ops=1001", None),
        ("periods=1", None),
        (
            "periods=10000",
            Some(Workload {
                periods: 10_000,
                ..mail
            }),
        ),
        ("periods=10001", None),
        (
            "timer=once",
            Some(Workload {
                timer: Timer::Once,
                ..mail
            }),
        ),
        (
            "timer=never",
            Some(Workload {
                timer: Timer::Never,
                ..mail
            }),
        ),
        ("timer=always", Some(mail)),
        ("timer=twice", None),
        (
            "walk=150",
            Some(Workload {
                walk: Some(150),
                ..mail
            }),
        ),
        ("walk=100001", None),
        ("shift=255", Some(Workload { shift: 255, ..mail })),
        ("shift=256", None),
        (
            "busy=1 pause=2",
            Some(Workload {
                busy: 1,
                pause: 2,
                ..mail
            }),
        ),
        ("busy=10001", None),
        ("pause=10001", None),
        ("cpus", None),
        ("cpus=", None),
        ("cpus=-1", None),
        ("cpus=99999999999999999999", None),
        ("threads=1", None),
    ];

    for (line, expected) in rows {
        assert_eq!(parse(line), expected, "{line}");
    }
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Allocates and frees at random on `cpus` CPUs that go offline and online.
fn exercise(cache: &Cache, tree: &Tree, cpus: usize, seed: u64, live: &mut VecDeque<Pfn>) {
    const STEPS: usize = 30_000;
    let mut random = Random(seed);

    for step in 0..STEPS {
        CPU.set(random.below(cpus));
        match random.below(2000) {
            0 => cache.close(random.below(cpus), tree),
            1..4 => cache.open(random.below(cpus)),
            4 => cache.flush_cpus(tree),
            5 => cache.flush_depot(tree),
            6..40 => drop(cache.trim(tree)),
            _ => (),
        }
        // Phases with more allocations (some magazines for each CPU), then with more frees.
        let grows = step / (cpus * 500) % 2 == 0;
        if random.below(10) < if grows { 8 } else { 2 } {
            let limit = if random.below(50) == 0 {
                300
            } else {
                usize::MAX
            };
            let pfn = cache.get(limit);
            live.push_back(pfn.unwrap_or_else(|| tree.alloc()));
        } else if let Some(pfn) = live.pop_front() {
            cache.put(pfn, tree);
        }
        if step % 1000 == 0 {
            assert_eq!(tree.ranges(), live.len() + cache.count().1);
        }
    }
}

/// Frees all ranges.
fn finish(cache: &Cache, tree: &Tree, live: VecDeque<Pfn>) {
    for pfn in live {
        cache.put(pfn, tree);
    }
    assert_eq!(tree.ranges(), cache.count().1);
    cache.flush_cpus(tree);
    cache.flush_depot(tree);
    assert_eq!((tree.ranges(), cache.count().1), (0, 0));
}

fn no_range_is_lost() {
    for policy in Policy::ALL {
        for (cpus, seed) in [(1, 1), (3, 2), (40, 3)] {
            let (cache, tree) = (cache(policy, cpus), Tree::checked());
            let mut live = VecDeque::new();
            exercise(&cache, &tree, cpus, seed, &mut live);
            finish(&cache, &tree, live);
        }
    }
}

fn no_memory() {
    for policy in Policy::ALL {
        let (cache, mut tree) = (cache(policy, 3), Tree::checked());
        let mut live = VecDeque::new();
        exercise(&cache, &tree, 3, 6, &mut live);
        tree.has_no_memory = true;
        exercise(&cache, &tree, 3, 7, &mut live);
        finish(&cache, &tree, live);
    }
}

fn threads() {
    const THREADS: usize = 4;

    for policy in Policy::ALL {
        let shared = Arc::new((cache(policy, THREADS), Tree::checked()));
        let live = Arc::new(Mutex::new(VecDeque::new()));
        let threads = (1..=THREADS as u64).map(|seed| {
            let (shared, live) = (shared.clone(), live.clone());
            thread::spawn(move || {
                let (cache, tree) = &*shared;
                let mut random = Random(seed);
                let mut mine = VecDeque::new();
                for step in 0..30_000 {
                    CPU.set(random.below(THREADS));
                    if random.below(10) < if step / 3000 % 2 == 0 { 7 } else { 3 } {
                        let pfn = cache.get(usize::MAX);
                        mine.push_back(pfn.unwrap_or_else(|| tree.alloc()));
                    } else if let Some(pfn) = mine.pop_front() {
                        cache.put(pfn, tree);
                    }
                    match random.below(3000) {
                        0 => cache.close(random.below(THREADS), tree),
                        1 | 2 => cache.open(random.below(THREADS)),
                        3 => drop(cache.trim(tree)),
                        _ => (),
                    }
                }
                live.lock().unwrap().append(&mut mine);
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().for_each(|it| it.join().unwrap());
        let (cache, tree) = &*shared;
        let live = std::mem::take(&mut *live.lock().unwrap());
        finish(cache, tree, live);
    }
}

fn limits() {
    for policy in Policy::ALL {
        let (cache, tree) = (cache(policy, 2), Tree::checked());
        for pfn in (0..500).map(|_| tree.alloc()).collect::<Vec<_>>() {
            CPU.set(1);
            cache.put(pfn, &tree);
        }
        CPU.set(0);
        let mut live = VecDeque::new();
        for limit in [0, 1, 250, 400, 499, 500, 0, 10, usize::MAX] {
            if let Some(pfn) = cache.get(limit) {
                let number = pfn.into_inner();
                assert!(number.get() <= limit);
                // SAFETY: The `Pfn` of this range was unwrapped above.
                live.push_back(unsafe { Pfn::new(number) });
            }
        }
        assert!(!live.is_empty());
        finish(&cache, &tree, live);
    }
}

fn depots() {
    /// The capacity of CPU 1 and of a depot of fixed size, plus one range.
    const COUNT: usize = (2 + 32) * MAGAZINE_SIZE + 1;
    // Policy, ranges freed into the tree: one magazine, all ranges of the CPU and the new one, or
    // none.
    let rows = [
        (Policy::FixedDrop, MAGAZINE_SIZE),
        (Policy::FixedFlush, 2 * MAGAZINE_SIZE + 1),
        (Policy::Scaled, 0),
        (Policy::Trimmed, 0),
        (Policy::Adaptive, 0),
    ];

    for (policy, freed) in rows {
        // For 17 CPUs the depot keeps 34 magazines.
        let (cache, tree) = (cache(policy, 17), Tree::checked());
        CPU.set(1);
        for pfn in (0..COUNT).map(|_| tree.alloc()).collect::<Vec<_>>() {
            cache.put(pfn, &tree);
        }
        assert_eq!(tree.ranges(), COUNT - freed);
        assert_eq!(cache.count().1, COUNT - freed);
        assert!(cache.depot().with(|depot| depot.len()) >= 32);
        finish(&cache, &tree, VecDeque::new());
    }
}
