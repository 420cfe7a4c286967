// SPDX-License-Identifier: GPL-2.0

//! The cache of one size: what CPUs and the depot do with each other.
//!
//! Nothing here knows what a CPU is, a lock or a domain: real CPUs have the locks of the kernel,
//! virtual ones, too, and tests on the build machine those of the standard library. All run this.
//!
//! The lock of a CPU comes before that of the depot, and none is held while memory is allocated or
//! freed, ranges go to the tree, or another CPU is looked at.

use super::{
    array::{
        Magazine,
        Pfn, //
    },
    atomic::{
        Atomic,
        Relaxed, //
    },
    depot::Depot,
    policy::{
        DepotPolicy,
        WhenEmpty,
        WhenFull, //
    },
    slot::{
        Hand,
        Push,
        Slot, //
    },
    MagazineBox, //
};

/// A value behind a lock.
pub(super) trait Guarded {
    type Value;

    /// Calls `f` with the value, and the lock held.
    fn with<R>(&self, f: impl FnOnce(&mut Self::Value) -> R) -> R;
}

/// The magazines of each CPU.
pub(super) trait Slots {
    type Lock: Guarded<Value = Slot>;

    /// Returns the slot of the CPU that this runs on.
    fn current(&self) -> &Self::Lock;

    /// Returns the slot of a CPU, if there is such a CPU.
    fn slot(&self, cpu: usize) -> Option<&Self::Lock>;

    /// Returns the number of the last CPU, plus one.
    fn cpus(&self) -> usize;

    /// Returns how many CPUs are online: those whose slots are open.
    fn online(&self) -> usize {
        (0..self.cpus())
            .filter_map(|cpu| self.slot(cpu))
            .filter(|slot| slot.with(|slot| slot.is_open()))
            .count()
    }
}

/// What a cache is over.
pub(super) trait Backing {
    /// Allocates an empty magazine.
    fn magazine(&self) -> Option<MagazineBox>;

    /// Frees a range of the size of this cache into the tree.
    fn free(&self, pfn: Pfn);
}

/// What happened to CPUs that had no ranges.
#[derive(Clone, Copy, Default)]
pub(super) struct Steals {
    /// How often they got some from another CPU.
    pub(super) done: usize,
    /// How many CPUs they looked at for that.
    pub(super) visited: usize,
}

/// A cache of the ranges of one size.
pub(super) struct Rcache<S, D> {
    slots: S,
    depot: D,
    /// The CPU to look at first for ranges to spare.
    victim: Atomic<usize>,
    /// How many CPUs are worth a look.
    patience: Atomic<usize>,
    steals: Atomic<usize>,
    visited: Atomic<usize>,
}

/// A CPU keeps what it has if that is less. Half of it is what an interrupt or two are worth.
const MIN_STEAL: usize = 8;

/// The most CPUs that one looks at.
const MAX_VISITS: usize = 32;

impl<S, D> Rcache<S, D> {
    pub(super) const fn new(slots: S, depot: D) -> Self {
        Self {
            slots,
            depot,
            victim: Atomic::new(0),
            patience: Atomic::new(MAX_VISITS),
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
    S: Slots,
    D: Guarded<Value = Depot<P>>,
    P: DepotPolicy,
{
    /// Takes a range that starts at `limit_pfn` at most, if there is one where it looks.
    #[inline]
    pub(super) fn get(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let popped = self.slots.current().with(|slot| slot.pop(limit_pfn));
        match popped {
            Ok(pfn) => pfn,
            Err(()) => self.get_from_depot(limit_pfn, backing),
        }
    }

    /// As [`get()`](Self::get), if the CPU has no ranges.
    fn get_from_depot(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let mut when_empty = WhenEmpty::Allocate;
        // Freed when the locks are not held any more.
        let mut emptied = [None, None];
        let pfn = self.slots.current().with(|slot| {
            if !slot.wants_refill() {
                // Of an offline CPU, or an interrupt was faster.
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
            WhenEmpty::Steal if pfn.is_none() => self.steal(limit_pfn, backing),
            _ => pfn,
        }
    }

    /// Takes ranges from a CPU that has some to spare.
    ///
    /// Looks at fewer CPUs the more often there was none, at one in the end; and at more again if
    /// there was one.
    fn steal(&self, limit_pfn: usize, backing: &impl Backing) -> Option<Pfn> {
        let this = self.slots.current();
        let mut hand = Hand {
            empty: this.with(|slot| slot.take_empty()),
            loaded: None,
        };
        if hand.empty.is_none() {
            hand.empty = backing.magazine();
        }

        let cpus = self.slots.cpus().max(1);
        let patience = self.patience.load(Relaxed);
        let first = self.victim.load(Relaxed);
        let mut visited = 0;
        // OVERFLOW: Both are less than the number of CPUs.
        let next = |cpu: usize| if cpu + 1 < cpus { cpu + 1 } else { 0 };
        let mut cpu = first;
        while visited < patience.min(cpus) && hand.loaded.is_none() {
            visited += 1;
            cpu = next(cpu);
            if let Some(slot) = self.slots.slot(cpu) {
                slot.with(|slot| slot.give(&mut hand, MIN_STEAL));
            }
        }

        self.victim.store(cpu, Relaxed);
        self.visited.add(visited, Relaxed);
        let Some(loaded) = hand.loaded.take() else {
            self.patience.store((patience / 2).max(1), Relaxed);
            let left = this.with(|slot| slot.put_back([hand.empty.take(), None]));
            drop(left);
            return None;
        };
        self.patience
            .store(patience.saturating_mul(2).min(MAX_VISITS), Relaxed);
        self.steals.add(1, Relaxed);
        self.use_stolen(this, loaded, limit_pfn)
    }

    /// Loads a magazine that came from another CPU, and takes a range out of it.
    fn use_stolen(&self, this: &S::Lock, mut loaded: MagazineBox, limit_pfn: usize) -> Option<Pfn> {
        let pfn = loaded.pop(limit_pfn);
        let emptied = this.with(|slot| {
            if slot.wants_refill() {
                return slot.refill(loaded, true);
            }
            // Ranges were freed here meanwhile, or the CPU went offline.
            self.depot.with(|depot| depot.push(loaded));
            [None, None]
        });
        drop(emptied);
        pfn
    }

    /// Adds a range, or frees it. Returns whether the depot has got one more magazine.
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

    /// As [`put()`](Self::put), if the CPU has no room.
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
            // The task may be on another CPU by now.
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

    /// Has the depot take a full magazine, if it does, for an empty one.
    fn make_room(
        &self,
        slot: &mut Slot,
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

    /// Frees what is in the magazines of all CPUs.
    ///
    /// C: `free_cpu_cached_iovas()`, which leaves the empty magazines there, too.
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

    /// Frees what is in the depot. C: `free_global_cached_iovas()`.
    pub(super) fn flush_depot(&self, backing: &impl Backing) {
        while let Some(magazine) = self.depot.with(|depot| depot.pop_surplus()) {
            free_all(magazine, backing);
        }
    }

    /// Frees what the policy says nobody needs, and returns whether it is to be asked again.
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

    /// Frees what a CPU has that goes offline, and has it keep nothing until [`open()`](Self::open).
    pub(super) fn close(&self, cpu: usize, backing: &impl Backing) {
        let taken = self
            .slots
            .slot(cpu)
            .map(|slot| slot.with(|slot| slot.close()));
        for magazine in taken.into_iter().flatten().flatten() {
            free_all(magazine, backing);
        }
    }

    /// Has a CPU that came online keep ranges.
    pub(super) fn open(&self, cpu: usize) {
        if let Some(slot) = self.slots.slot(cpu) {
            slot.with(|slot| slot.open());
        }
    }

    /// Returns the number of magazines and of ranges in them.
    pub(super) fn count(&self) -> (usize, usize) {
        let of_depot = self.depot.with(|depot| (depot.len(), depot.ranges()));
        (0..self.slots.cpus())
            .filter_map(|cpu| self.slots.slot(cpu))
            .map(|slot| slot.with(|slot| slot.count()))
            .fold(of_depot, |(magazines, ranges), of_slot| {
                (magazines + of_slot.0, ranges + of_slot.1)
            })
    }

    pub(super) fn steals(&self) -> Steals {
        Steals {
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
