// SPDX-License-Identifier: GPL-2.0

//! The cache of one size: the exchange of magazines between CPUs and the depot.
//!
//! This file is generic over CPUs, locks and the domain. Real and virtual CPUs use the locks of the
//! kernel. Tests on the build machine use those of the standard library.
//!
//! Lock order: the lock of a CPU, then the lock of the depot. No lock is held while memory is
//! allocated or freed, while ranges are freed into the tree, or while another CPU is searched.

use super::{
    array::{
        Magazine,
        Pfn, //
    },
    atomic::{
        Atomic,
        Relaxed, //
    },
    cpu_rcache::{
        CpuRcache,
        Push,
        StolenMagazines, //
    },
    depot::Depot,
    policy::{
        DepotPolicy,
        WhenEmpty,
        WhenFull, //
    },
    MagazineBox, //
};

/// A value behind a lock.
pub(super) trait Guarded {
    type Value;

    /// Calls `f` with the value while the lock is held.
    fn with<R>(&self, f: impl FnOnce(&mut Self::Value) -> R) -> R;
}

/// The magazines of each CPU.
pub(super) trait CpuRcaches {
    type Lock: Guarded<Value = CpuRcache>;

    /// Returns the slot of the current CPU.
    fn current(&self) -> &Self::Lock;

    /// Returns the slot of a CPU, or `None` if there is no such CPU.
    fn slot(&self, cpu: usize) -> Option<&Self::Lock>;

    /// Returns the highest CPU number, plus one.
    fn cpus(&self) -> usize;

    /// Returns the number of online CPUs. Their slots are open.
    fn online(&self) -> usize {
        (0..self.cpus())
            .filter_map(|cpu| self.slot(cpu))
            .filter(|slot| slot.with(|slot| slot.is_open()))
            .count()
    }
}

/// The allocator behind a cache.
pub(super) trait Backing {
    /// Allocates an empty magazine.
    fn magazine(&self) -> Option<MagazineBox>;

    /// Frees a range of this cache's size into the tree.
    fn free(&self, pfn: Pfn);
}

/// Counts of transfers between CPUs.
#[derive(Clone, Copy, Default)]
pub(super) struct StealStats {
    /// How often a CPU took ranges from another CPU.
    pub(super) done: usize,
    /// The number of CPUs that were searched.
    pub(super) visited: usize,
}

/// A cache of the ranges of one size.
pub(super) struct Rcache<S, D> {
    slots: S,
    depot: D,
    /// The CPU from which the next search for ranges starts.
    victim: Atomic<usize>,
    /// The number of CPUs that the next search visits.
    visit_limit: Atomic<usize>,
    steals: Atomic<usize>,
    visited: Atomic<usize>,
}

/// A CPU with fewer ranges keeps them. Half of this serves an interrupt or two.
const MIN_STEAL: usize = 8;

/// The maximum number of CPUs that one search visits.
const MAX_VISITS: usize = 32;

impl<S, D> Rcache<S, D> {
    pub(super) const fn new(slots: S, depot: D) -> Self {
        Self {
            slots,
            depot,
            victim: Atomic::new(0),
            visit_limit: Atomic::new(MAX_VISITS),
            steals: Atomic::new(0),
            visited: Atomic::new(0),
        }
    }

    pub(super) fn depot(&self) -> &D {
        &self.depot
    }
}

impl<S, D, P> Rcache<S, D>
where
    S: CpuRcaches,
    D: Guarded<Value = Depot<P>>,
    P: DepotPolicy,
{
    /// Takes a range that starts at `limit_pfn` or below from the cache, if it finds one.
    #[inline]
    pub(super) fn get(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let popped = self.slots.current().with(|slot| slot.pop(limit_pfn));
        match popped {
            Ok(pfn) => pfn,
            Err(()) => self.get_from_depot(limit_pfn, backing),
        }
    }

    /// As [`get()`](Self::get), for a CPU without ranges.
    fn get_from_depot(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let mut when_empty = WhenEmpty::Allocate;
        // Freed after the locks are released.
        let mut emptied = [None, None];
        let pfn = self.slots.current().with(|slot| {
            if !slot.wants_refill() {
                // The CPU is offline, or an interrupt has refilled the slot.
                return slot.pop(limit_pfn).ok().flatten();
            }
            let (magazine, both) = self.depot.with(|depot| {
                let magazine = depot.pop();
                if magazine.is_none() {
                    when_empty = depot.policy().on_empty();
                }
                (magazine, depot.policy().takes_all_empty())
            });
            emptied = slot.refill(magazine?, both);
            slot.pop(limit_pfn).ok().flatten()
        });
        drop(emptied);

        match when_empty {
            // The depot was empty, so there is no range.
            WhenEmpty::Steal => self.steal(limit_pfn, backing),
            WhenEmpty::Allocate => pfn,
        }
    }

    /// Takes ranges from a CPU that has enough of them.
    ///
    /// Each search without success halves the number of CPUs that the next one visits, to at least
    /// one. Success doubles it.
    fn steal(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let this = self.slots.current();
        let mut stolen = StolenMagazines {
            empty: this.with(|slot| slot.take_empty()),
            loaded: None,
        };
        if stolen.empty.is_none() {
            stolen.empty = backing.magazine();
        }

        let cpus = self.slots.cpus().max(1);
        let visit_limit = self.visit_limit.load(Relaxed);
        let first = self.victim.load(Relaxed);
        let mut visited = 0;
        // OVERFLOW: The CPU number is less than `cpus`.
        let next = |cpu: usize| if cpu + 1 < cpus { cpu + 1 } else { 0 };
        let mut cpu = first;
        while visited < visit_limit.min(cpus) && stolen.loaded.is_none() {
            visited += 1;
            cpu = next(cpu);
            if let Some(slot) = self.slots.slot(cpu) {
                slot.with(|slot| slot.steal(&mut stolen, MIN_STEAL));
            }
        }

        self.victim.store(cpu, Relaxed);
        self.visited.add(visited, Relaxed);
        let Some(loaded) = stolen.loaded.take() else {
            self.visit_limit.store((visit_limit / 2).max(1), Relaxed);
            let left = this.with(|slot| slot.put_back([stolen.empty.take(), None]));
            drop(left);
            return None;
        };
        self.visit_limit
            .store(visit_limit.saturating_mul(2).min(MAX_VISITS), Relaxed);
        self.steals.add(1, Relaxed);
        self.use_stolen(this, loaded, limit_pfn)
    }

    /// Loads a magazine of another CPU, and takes a range out of it.
    fn use_stolen(&self, this: &S::Lock, mut loaded: MagazineBox, limit_pfn: usize) -> Option<Pfn> {
        let pfn = loaded.pop(limit_pfn);
        let emptied = this.with(|slot| {
            if slot.wants_refill() {
                return slot.refill(loaded, true);
            }
            // Meanwhile ranges were freed on this CPU, or it went offline.
            self.depot.with(|depot| depot.push(loaded));
            [None, None]
        });
        drop(emptied);
        pfn
    }

    /// Caches or frees a range. Returns whether the depot received a magazine.
    #[inline]
    pub(super) fn put(&self, pfn: Pfn, backing: &impl Backing) -> bool {
        let pushed = self.slots.current().with(|slot| slot.push(pfn));
        match pushed {
            Push::Done => return false,
            Push::NoRoom(pfn) => return self.put_with_room(pfn, backing),
            Push::Closed(pfn) => backing.free(pfn),
        }
        false
    }

    /// As [`put()`](Self::put), for a CPU without room.
    fn put_with_room(&self, pfn: Pfn, backing: &impl Backing) -> bool {
        let mut room = backing.magazine();
        if room.is_none() {
            backing.free(pfn);
            return false;
        }
        let mut overflow = None;
        let mut flush = false;
        let mut kept = false;

        let pushed = self.slots.current().with(|slot| {
            // The task may have moved to another CPU.
            let pfn = match slot.push(pfn) {
                Push::NoRoom(pfn) => pfn,
                pushed => return pushed,
            };
            if slot.is_full() {
                match self
                    .depot
                    .with(|depot| self.make_room(slot, &mut room, depot))
                {
                    WhenFull::Keep => kept = true,
                    WhenFull::Free => overflow = slot.load_empty(room.take()),
                    WhenFull::FlushCpus => {
                        flush = true;
                        return Push::Closed(pfn);
                    }
                }
            } else {
                let _ = slot.load_empty(room.take());
            }
            slot.push(pfn)
        });
        drop(room);

        if let Some(magazine) = overflow {
            free_all(magazine, backing);
        }
        if flush {
            self.flush_cpus(backing);
        }
        match pushed {
            Push::Done => (),
            Push::NoRoom(pfn) | Push::Closed(pfn) => backing.free(pfn),
        }
        kept
    }

    /// Moves a full magazine to the depot, if the policy keeps it, and loads an empty one.
    fn make_room(
        &self,
        slot: &mut CpuRcache,
        room: &mut Option<MagazineBox>,
        depot: &mut Depot<P>,
    ) -> WhenFull {
        let when_full = depot.when_full();
        if when_full == WhenFull::Keep {
            if let Some(full) = slot.load_empty(room.take()) {
                depot.push(full);
            }
        }
        when_full
    }

    /// Frees the ranges in the magazines of all CPUs.
    ///
    /// C: `free_cpu_cached_iovas()`, which keeps the empty magazines, too.
    pub(super) fn flush_cpus(&self, backing: &impl Backing) {
        for slot in (0..self.slots.cpus()).filter_map(|cpu| self.slots.slot(cpu)) {
            let mut taken = slot.with(|slot| slot.take());
            for magazine in taken.iter_mut().flatten() {
                empty(magazine, backing);
            }
            let left = slot.with(|slot| slot.put_back(taken));
            drop(left);
        }
    }

    /// Frees the ranges in the depot. C: `free_global_cached_iovas()`.
    pub(super) fn flush_depot(&self, backing: &impl Backing) {
        while let Some(magazine) = self.depot.with(|depot| depot.pop_surplus()) {
            free_all(magazine, backing);
        }
    }

    /// Frees the surplus of the policy, and returns whether to call this again.
    ///
    /// C: `iova_depot_work_func()`.
    pub(super) fn trim(&self, backing: &impl Backing) -> bool {
        let online = self.slots.online();
        let (count, is_due) = self.depot.with(|depot| depot.trim(online));
        for _ in 0..count {
            let Some(magazine) = self.depot.with(|depot| depot.pop_surplus()) else {
                break;
            };
            free_all(magazine, backing);
        }
        is_due
    }

    /// Frees the ranges of a CPU that goes offline. It caches nothing until [`open()`](Self::open).
    pub(super) fn close(&self, cpu: usize, backing: &impl Backing) {
        let taken = self
            .slots
            .slot(cpu)
            .map(|slot| slot.with(|slot| slot.close()));
        for magazine in taken.into_iter().flatten().flatten() {
            free_all(magazine, backing);
        }
    }

    /// Enables caching on a CPU that comes online.
    pub(super) fn open(&self, cpu: usize) {
        if let Some(slot) = self.slots.slot(cpu) {
            slot.with(|slot| slot.open());
        }
    }

    /// Returns the number of magazines, and of ranges in them.
    pub(super) fn count(&self) -> (usize, usize) {
        let of_depot = self.depot.with(|depot| (depot.len(), depot.ranges()));
        (0..self.slots.cpus())
            .filter_map(|cpu| self.slots.slot(cpu))
            .map(|slot| slot.with(|slot| slot.count()))
            .fold(of_depot, |(magazines, ranges), of_slot| {
                (magazines + of_slot.0, ranges + of_slot.1)
            })
    }

    pub(super) fn steals(&self) -> StealStats {
        StealStats {
            done: self.steals.load(Relaxed),
            visited: self.visited.load(Relaxed),
        }
    }
}

/// Frees all ranges of a magazine.
fn empty(magazine: &mut Magazine, backing: &impl Backing) {
    while let Some(pfn) = magazine.pop(usize::MAX) {
        backing.free(pfn);
    }
}

/// Frees a magazine, and all ranges in it.
fn free_all(mut magazine: MagazineBox, backing: &impl Backing) {
    empty(&mut magazine, backing);
}
