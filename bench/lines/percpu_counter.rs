// SPDX-License-Identifier: GPL-2.0

//! The accesses of `lib/percpu_counter.c`, with `CONFIG_HAVE_CMPXCHG_LOCAL`.

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

/// The count of a CPU, in memory of that CPU.
#[repr(align(64))]
struct Local(Atomic<i64>);

/// C: `struct percpu_counter`, whose fields share a line with the pointer to the local counts.
#[repr(C, align(64))]
pub(crate) struct PerCpuCounter {
    lock: SpinLock,
    count: Atomic<i64>,
    counters: Atomic<()>,
    locals: Box<[Local]>,
    nodes: Nodes,
}

impl PerCpuCounter {
    pub(crate) fn new(cpus: usize) -> Box<Self> {
        let counter = Box::new(Self {
            lock: SpinLock::new(),
            count: Atomic::new(0),
            counters: Atomic::new(()),
            locals: (0..cpus).map(|_| Local(Atomic::new(0))).collect(),
            nodes: Nodes::new(cpus),
        });
        machine::name(&*counter, "lock_and_count");
        counter
            .locals
            .iter()
            .for_each(|local| machine::name(local, "slots"));
        counter
    }

    /// C: `percpu_counter_batch`.
    fn batch(&self) -> i64 {
        // CAST: At most `MAX_CPUS`.
        (2 * self.locals.len() as i64).max(32)
    }

    fn local(&self) -> &Atomic<i64> {
        self.counters.load(Relaxed);
        &self.locals[turns::cpu()].0
    }

    /// C: `percpu_counter_add_batch()`.
    pub(crate) fn add(&self, amount: i64) {
        let local = self.local();
        let mut count = local.load(Relaxed);

        while (count + amount).abs() < self.batch() {
            match local.cmpxchg(count, count + amount, Relaxed) {
                Ok(_) => return,
                Err(seen) => count = seen,
            }
        }
        self.lock.with(&self.nodes, || {
            let count = local.load(Relaxed);
            self.count.add(count + amount, Relaxed);
            local.add(-count, Relaxed);
        });
    }

    /// C: `percpu_counter_read()`.
    pub(crate) fn read(&self) -> i64 {
        self.count.load(Relaxed)
    }

    /// C: `__percpu_counter_sum()`.
    fn sum(&self) -> i64 {
        self.lock.with(&self.nodes, || {
            let locals = self.locals.iter().map(|local| local.0.load(Relaxed));
            self.count.load(Relaxed) + locals.sum::<i64>()
        })
    }

    /// Returns whether the count is less than `limit`. C: `__percpu_counter_compare()`.
    pub(crate) fn is_less(&self, limit: i64) -> bool {
        let count = self.read();

        // CAST: At most `MAX_CPUS`.
        if (count - limit).abs() > self.batch() * self.locals.len() as i64 {
            return count < limit;
        }
        self.sum() < limit
    }
}
