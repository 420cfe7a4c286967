// SPDX-License-Identifier: GPL-2.0

//! A queued spinlock, with the accesses of `kernel/locking/qspinlock.c`.
//!
//! A CPU that finds the lock taken queues a node of its own, and waits on that node. Only the first
//! CPU of the queue watches the lock.

use crate::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    machine,
    turns, //
};

/// The node of a CPU, in a cache line of its own.
#[repr(align(64))]
struct Node {
    is_first: Atomic<usize>,
    /// The next CPU in the queue, plus one.
    next: Atomic<usize>,
}

/// The nodes of all CPUs. C: `qnodes`.
pub(crate) struct Nodes(Box<[Node]>);

impl Nodes {
    pub(crate) fn new(cpus: usize) -> Self {
        let node = |_| Node {
            is_first: Atomic::new(0),
            next: Atomic::new(0),
        };
        let nodes = Self((0..cpus).map(node).collect());
        nodes
            .0
            .iter()
            .for_each(|node| machine::name(node, "lock_queue"));
        nodes
    }
}

/// The word of a lock: whether it is taken, and the last CPU in the queue, plus one.
pub(crate) struct SpinLock {
    word: Atomic<(bool, usize)>,
}

impl SpinLock {
    pub(crate) const fn new() -> Self {
        Self {
            word: Atomic::new((false, 0)),
        }
    }

    /// Calls `f` with the lock held. C: `queued_spin_lock()`, `queued_spin_unlock()`.
    pub(crate) fn with<R>(&self, nodes: &Nodes, f: impl FnOnce() -> R) -> R {
        if self.word.cmpxchg((false, 0), (true, 0), Relaxed).is_err() {
            self.wait(nodes);
        }
        machine::count_lock();
        let result = f();
        // Only the first byte of the word is written.
        self.word.replace(|(_, last)| (false, last));
        result
    }

    fn wait(&self, nodes: &Nodes) {
        let number = turns::cpu() + 1;
        let node = &nodes.0[number - 1];
        node.is_first.store(0, Relaxed);
        node.next.store(0, Relaxed);

        let (_, before) = self.word.replace(|(taken, _)| (taken, number));
        if before != 0 {
            nodes.0[before - 1].next.store(number, Relaxed);
            node.is_first.wait_until(|is_first| is_first != 0);
        }
        self.word.wait_until(|(taken, _)| !taken);
        if self
            .word
            .cmpxchg((false, number), (true, 0), Relaxed)
            .is_ok()
        {
            return;
        }
        self.word.replace(|(_, last)| (true, last));
        let next = node.next.wait_until(|next| next != 0);
        nodes.0[next - 1].is_first.store(1, Relaxed);
    }
}
