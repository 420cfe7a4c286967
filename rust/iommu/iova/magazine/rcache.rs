// SPDX-License-Identifier: GPL-2.0

//! The cache of one size: the exchange of magazines between CPUs and the depot.
//!
//! This file is generic over CPUs, locks and the domain. Real and virtual CPUs use the locks of the
//! kernel. Tests on the build machine use those of the standard library.
//!
//! Lock order: the lock of a CPU, then the lock of the depot. No lock is held while memory is
//! allocated or freed, or while ranges are freed into the tree.

use super::{
    array::{
        Magazine,
        Pfn, //
    },
    cpu_rcache::{
        CpuRcache,
        Push, //
    },
    depot::Depot,
    policy::{
        DepotPolicy,
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

/// A cache of the ranges of one size.
pub(super) struct Rcache<S, D> {
    slots: S,
    depot: D,
    /// Whether CPUs return to the depot what they do not use.
    returns: bool,
}

impl<S, D> Rcache<S, D> {
    pub(super) const fn new(slots: S, depot: D, returns: bool) -> Self {
        Self {
            slots,
            depot,
            returns,
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
    pub(super) fn get(&self, limit_pfn: usize) -> Option<Pfn> {
        let popped = self.slots.current().with(|slot| slot.pop(limit_pfn));
        match popped {
            Ok(pfn) => pfn,
            Err(()) => self.get_from_depot(limit_pfn),
        }
    }

    /// As [`get()`](Self::get), for a CPU without ranges.
    fn get_from_depot(&self, limit_pfn: usize) -> Option<Pfn> {
        // Freed after the locks are released.
        let mut emptied = None;
        let pfn = self.slots.current().with(|slot| {
            if slot.wants_refill() {
                let magazine = self.depot.with(|depot| depot.pop())?;
                emptied = slot.refill(magazine);
            }
            // Otherwise the CPU is offline, or an interrupt has refilled the slot.
            slot.pop(limit_pfn).ok().flatten()
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
            Push::Due => return self.returns && self.return_surplus(backing),
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
            Push::Done | Push::Due => (),
            Push::NoRoom(pfn) | Push::Closed(pfn) => backing.free(pfn),
        }
        kept
    }

    /// Moves what this CPU did not use to the depot. Returns whether the depot received a magazine.
    // Not inlined: one call in some dozens of `put()` gets here.
    #[inline(never)]
    fn return_surplus(&self, backing: &impl Backing) -> bool {
        let this = self.slots.current();
        let Some(count) = this.with(|slot| slot.surplus()) else {
            return false;
        };
        let Some(mut magazine) = backing.magazine() else {
            return false;
        };
        this.with(|slot| slot.move_loaded(&mut magazine, count));

        // Meanwhile the CPU may have used them, or gone offline.
        let is_kept = !magazine.is_empty();
        if is_kept {
            self.depot.with(|depot| depot.push(magazine));
        }
        is_kept
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
