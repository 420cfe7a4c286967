// SPDX-License-Identifier: GPL-2.0

//! Checks of the model itself.

use std::cell::Cell;

use crate::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    machine,
    spinlock::{
        Nodes,
        SpinLock, //
    },
    turns, //
};

pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("lines_move_as_in_mesi", lines_move),
    ("a_transfer_between_nodes_is_one_from_another_node", nodes),
    ("a_lock_excludes_and_each_cpu_gets_it", locks),
    ("a_run_is_repeatable", repeatable),
];

#[repr(align(64))]
struct Line(Atomic<usize>);

/// Runs accesses on CPUs, and returns the transfers, and those between nodes.
fn transfers(accesses: &[(usize, fn(&Line))]) -> (usize, usize) {
    machine::start();
    let line = Box::new(Line(Atomic::new(0)));
    for (cpu, access) in accesses {
        turns::be_on(*cpu);
        access(&line);
    }
    turns::be_on(0);
    let counts = machine::take_counts();
    (counts.transfers, counts.between_nodes)
}

const READ: fn(&Line) = |line| {
    line.0.load(Relaxed);
};
const WRITE: fn(&Line) = |line| line.0.store(1, Relaxed);
/// An exchange that fails.
const FAIL: fn(&Line) = |line| {
    let _ = line.0.cmpxchg(7, 8, Relaxed);
};

fn lines_move() {
    // Accesses, transfers.
    let rows: [(&[(usize, fn(&Line))], usize); 11] = [
        (&[(0, READ), (1, READ), (2, READ)], 0),
        (&[(0, WRITE), (0, READ), (0, WRITE)], 0),
        (&[(0, READ), (0, WRITE)], 0),
        (&[(0, WRITE), (1, READ)], 1),
        (&[(0, WRITE), (1, READ), (1, READ), (0, READ)], 1),
        (&[(0, WRITE), (1, READ), (2, READ)], 2),
        (&[(0, WRITE), (1, READ), (0, WRITE)], 2),
        (&[(0, WRITE), (1, READ), (1, WRITE)], 2),
        (&[(0, WRITE), (1, WRITE), (0, WRITE)], 2),
        (&[(0, READ), (1, WRITE)], 1),
        (&[(0, WRITE), (1, FAIL), (0, READ)], 2),
    ];
    for (row, (accesses, expected)) in rows.iter().enumerate() {
        assert_eq!(transfers(accesses).0, *expected, "row {row}");
    }
}

fn nodes() {
    // Accesses, transfers between nodes.
    let rows: [(&[(usize, fn(&Line))], usize); 5] = [
        (&[(0, WRITE), (63, READ)], 0),
        (&[(0, WRITE), (64, READ)], 1),
        (&[(0, WRITE), (64, READ), (65, READ)], 1),
        (&[(0, WRITE), (64, READ), (65, WRITE)], 2),
        (&[(64, WRITE), (65, WRITE), (66, READ)], 0),
    ];
    for (row, (accesses, expected)) in rows.iter().enumerate() {
        assert_eq!(transfers(accesses).1, *expected, "row {row}");
    }
}

/// Returns the transfers of CPUs that take a lock.
fn contend(cpus: usize) -> usize {
    const ROUNDS: usize = 20;

    machine::start();
    let lock = SpinLock::new();
    let nodes = Nodes::new(cpus);
    let (inside, done) = (Cell::new(false), Cell::new(0));
    turns::run(cpus, 3, &|_| {
        for _ in 0..ROUNDS {
            lock.with(&nodes, || {
                assert!(!inside.replace(true));
                turns::pass();
                inside.set(false);
            });
            done.set(done.get() + 1);
        }
    });
    assert_eq!(done.get(), cpus * ROUNDS);
    let counts = machine::take_counts();
    assert_eq!(counts.locks, cpus * ROUNDS);
    counts.transfers
}

fn locks() {
    assert_eq!(contend(1), 0);
    assert!(contend(2) > 20);
    contend(100);
}

fn repeatable() {
    assert_eq!(contend(20), contend(20));
}
