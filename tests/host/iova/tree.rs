// SPDX-License-Identifier: GPL-2.0

//! CPUs, locks and a tree for the caches under test.

use std::{
    cell::Cell,
    collections::HashSet,
    num::NonZeroUsize,
    sync::{
        atomic::{
            AtomicUsize,
            Ordering::Relaxed, //
        },
        Mutex, //
    }, //
};

use super::{
    array::{
        Magazine,
        Pfn, //
    },
    cpu_rcache::CpuRcache,
    depot::Depot,
    policy::{
        Policy,
        State, //
    },
    rcache::{
        Backing,
        CpuRcaches,
        Guarded,
        Rcache, //
    },
    MagazineBox, //
};

impl<T> Guarded for Mutex<T> {
    type Value = T;

    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // A thread that holds a lock must not allocate or use the tree.
        HELD.with(|held| held.set(held.get() + 1));
        let result = f(&mut self.lock().unwrap());
        HELD.with(|held| held.set(held.get() - 1));
        result
    }
}

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    /// The CPU of this thread.
    pub(super) static CPU: Cell<usize> = const { Cell::new(0) };
}

fn assert_no_lock_held() {
    assert_eq!(HELD.with(Cell::get), 0, "a lock is held");
}

pub(super) struct Cpus(Vec<Mutex<CpuRcache>>);

impl CpuRcaches for Cpus {
    type Lock = Mutex<CpuRcache>;

    fn current(&self) -> &Mutex<CpuRcache> {
        &self.0[CPU.with(Cell::get)]
    }

    fn slot(&self, cpu: usize) -> Option<&Mutex<CpuRcache>> {
        self.0.get(cpu)
    }

    fn cpus(&self) -> usize {
        self.0.len()
    }
}

pub(super) type Cache = Rcache<Cpus, Mutex<Depot<State>>>;

pub(super) fn cache(policy: Policy, cpus: usize) -> Cache {
    let slots = (0..cpus).map(|_| Mutex::new(CpuRcache::new())).collect();
    let depot = Mutex::new(Depot::new(policy.state(cpus)));
    Rcache::new(Cpus(slots), depot, policy.returns_surplus())
}

/// A tree that counts its operations.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) allocs: AtomicUsize,
    pub(super) frees: AtomicUsize,
    next: AtomicUsize,
    /// The allocated ranges, if `is_checked`.
    live: Mutex<HashSet<usize>>,
    is_checked: bool,
    /// Whether there is no memory for magazines.
    pub(super) has_no_memory: bool,
}

impl Tree {
    /// Creates a tree that also detects double frees.
    pub(super) fn checked() -> Self {
        Self {
            is_checked: true,
            ..Self::default()
        }
    }

    pub(super) fn alloc(&self) -> Pfn {
        self.allocs.fetch_add(1, Relaxed);
        let pfn = self.next.fetch_add(1, Relaxed) + 1;
        if self.is_checked {
            self.live.lock().unwrap().insert(pfn);
        }
        // SAFETY: There was none before.
        unsafe { Pfn::new(NonZeroUsize::new(pfn).unwrap()) }
    }

    pub(super) fn ops(&self) -> usize {
        self.allocs.load(Relaxed) + self.frees.load(Relaxed)
    }

    /// Returns the number of ranges.
    pub(super) fn ranges(&self) -> usize {
        self.allocs.load(Relaxed) - self.frees.load(Relaxed)
    }
}

impl Backing for Tree {
    fn magazine(&self) -> Option<MagazineBox> {
        assert_no_lock_held();
        (!self.has_no_memory).then(|| Box::new(Magazine::EMPTY))
    }

    fn free(&self, pfn: Pfn) {
        assert_no_lock_held();
        self.frees.fetch_add(1, Relaxed);
        if self.is_checked {
            let pfn = pfn.into_inner().get();
            assert!(self.live.lock().unwrap().remove(&pfn), "freed twice");
        }
    }
}

impl Drop for Magazine {
    /// Checks that no magazine is freed with a lock held, or with ranges in it.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_no_lock_held();
        }
    }
}
