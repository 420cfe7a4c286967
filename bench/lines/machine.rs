// SPDX-License-Identifier: GPL-2.0

//! CPUs with caches: which accesses move a cache line from one CPU to another.
//!
//! The protocol is MESI. A line moves if a CPU reads it that has no copy since another CPU wrote
//! it, or if a CPU writes it while another CPU has a copy or was the last to write it. The first
//! access of all to a line comes from memory, and does not count. Caches have no limit.

use std::{
    cell::{
        Cell,
        RefCell, //
    },
    collections::{
        BTreeMap,
        HashMap, //
    },
    hash::{
        BuildHasherDefault,
        Hasher, //
    }, //
};

use crate::turns;

pub(crate) const LINE_BYTES: usize = 64;

pub(crate) const MAX_CPUS: usize = 1024;

/// CPUs of a NUMA node.
const NODE_CPUS: usize = u64::BITS as usize;

/// A set of CPUs, with a word for each node.
#[derive(Clone, Default)]
struct Cpus([u64; MAX_CPUS / NODE_CPUS]);

impl Cpus {
    fn only(cpu: usize) -> Self {
        let mut cpus = Self::default();
        cpus.insert(cpu);
        cpus
    }

    fn insert(&mut self, cpu: usize) {
        self.0[cpu / NODE_CPUS] |= 1 << (cpu % NODE_CPUS);
    }

    fn has(&self, cpu: usize) -> bool {
        self.0[cpu / NODE_CPUS] & 1 << (cpu % NODE_CPUS) != 0
    }

    fn is_only(&self, cpu: usize) -> bool {
        let only = |word: usize| {
            if word == cpu / NODE_CPUS {
                1 << (cpu % NODE_CPUS)
            } else {
                0
            }
        };
        self.0
            .iter()
            .enumerate()
            .all(|(word, bits)| bits & !only(word) == 0)
    }

    fn has_node(&self, node: usize) -> bool {
        self.0[node] != 0
    }

    fn has_node_other_than(&self, node: usize) -> bool {
        self.0
            .iter()
            .enumerate()
            .any(|(other, bits)| other != node && *bits != 0)
    }
}

/// The hash of a line is its number, scrambled.
#[derive(Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!();
    }

    fn write_usize(&mut self, line: usize) {
        self.0 = (line as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A cache line.
#[derive(Default)]
struct Line {
    /// The CPUs with a copy.
    copies: Cpus,
    /// The CPU that may write its copy, as no other CPU has one.
    exclusive: Option<usize>,
    /// The CPU that wrote the line last.
    writer: Option<usize>,
    name: &'static str,
}

/// Counts of line transfers, and of locks taken.
#[derive(Clone, Default, Debug)]
pub(crate) struct Counts {
    pub(crate) transfers: usize,
    /// The transfers from a CPU of another node.
    pub(crate) between_nodes: usize,
    pub(crate) by_line: BTreeMap<&'static str, usize>,
    pub(crate) locks: usize,
}

#[derive(Default)]
struct Machine {
    lines: HashMap<usize, Line, BuildHasherDefault<LineHasher>>,
    counts: Counts,
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::default();
    static IS_PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `f` without recording its accesses: the model looks, not a CPU.
pub(crate) fn unseen<R>(f: impl FnOnce() -> R) -> R {
    IS_PAUSED.set(true);
    let result = f();
    IS_PAUSED.set(false);
    result
}

/// Starts a machine without any line in a cache.
pub(crate) fn start() {
    MACHINE.set(Machine::default());
}

/// Returns the counts since the last call.
pub(crate) fn take_counts() -> Counts {
    MACHINE.with_borrow_mut(|machine| std::mem::take(&mut machine.counts))
}

/// Names the lines of a value, for the counts by line.
pub(crate) fn name<T>(value: &T, name: &'static str) {
    let begin = std::ptr::from_ref(value).addr() / LINE_BYTES;
    let end = (std::ptr::from_ref(value).addr() + size_of::<T>()).div_ceil(LINE_BYTES);

    MACHINE.with_borrow_mut(|machine| {
        for line in begin..end {
            machine.lines.entry(line).or_default().name = name;
        }
    });
}

/// Forgets the lines of a value whose memory is freed.
pub(crate) fn forget<T>(value: &T) {
    let begin = std::ptr::from_ref(value).addr() / LINE_BYTES;
    let end = (std::ptr::from_ref(value).addr() + size_of::<T>()).div_ceil(LINE_BYTES);

    MACHINE.with_borrow_mut(|machine| {
        for line in begin..end {
            machine.lines.remove(&line);
        }
    });
}

/// Counts a lock that is taken.
pub(crate) fn count_lock() {
    MACHINE.with_borrow_mut(|machine| machine.counts.locks += 1);
}

impl Machine {
    /// Returns whether an access of this CPU needs no other cache.
    fn hits(&self, line: usize, cpu: usize, writes: bool) -> bool {
        self.lines.get(&line).is_some_and(|line| match writes {
            true => line.exclusive == Some(cpu),
            false => line.copies.has(cpu),
        })
    }

    fn access(&mut self, address: usize, cpu: usize, writes: bool) {
        if self.hits(address, cpu, writes) {
            if writes {
                self.lines.entry(address).or_default().writer = Some(cpu);
            }
            return;
        }
        let node = cpu / NODE_CPUS;
        let line = self.lines.entry(address).or_default();
        let is_alone = line.copies.is_only(cpu);
        // Whether the last copy of this CPU, if any, is out of date.
        let is_stale = !line.copies.has(cpu) && line.writer.is_some_and(|writer| writer != cpu);
        let moves = is_stale || writes && !is_alone;

        if moves {
            // A read is served by the nearest copy; a write waits for all others.
            let is_far = match writes {
                false => !line.copies.has_node(node),
                true => line.copies.has_node_other_than(node),
            };
            self.counts.transfers += 1;
            self.counts.between_nodes += usize::from(is_far);
            *self.counts.by_line.entry(line.name).or_default() += 1;
        }
        if writes {
            line.copies = Cpus::only(cpu);
            line.writer = Some(cpu);
            line.exclusive = Some(cpu);
        } else {
            line.copies.insert(cpu);
            line.exclusive = is_alone.then_some(cpu);
        }
    }
}

/// Records an access of the current CPU to the line of a value.
///
/// Before an access that another cache has to serve, and before some others, all CPUs may run.
pub(crate) fn access<T>(value: &T, writes: bool) {
    if IS_PAUSED.get() {
        return;
    }
    let address = std::ptr::from_ref(value).addr() / LINE_BYTES;
    let hits = MACHINE.with_borrow(|machine| machine.hits(address, turns::cpu(), writes));

    turns::step(hits);
    MACHINE.with_borrow_mut(|machine| machine.access(address, turns::cpu(), writes));
    if writes {
        turns::wake(address);
    }
}

/// Waits until another CPU writes the line of a value.
pub(crate) fn wait<T>(value: &T) {
    turns::wait(std::ptr::from_ref(value).addr() / LINE_BYTES);
}
