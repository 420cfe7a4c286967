// SPDX-License-Identifier: GPL-2.0

//! The magazines of one CPU.

use core::mem;

use super::{
    array::Pfn,
    MagazineBox, //
};

/// Up to two magazines of one size. The field names are those of C's `struct iova_cpu_rcache`.
pub(super) struct CpuRcache {
    loaded: Option<MagazineBox>,
    prev: Option<MagazineBox>,
    /// What was used in the current window, see [`surplus()`](CpuRcache::surplus).
    used: Used,
    /// Whether the CPU may cache ranges: false while it is offline.
    is_open: bool,
}

/// What a CPU used in a window.
struct Used {
    /// The least number of ranges in `loaded` after one was taken, and at the begin.
    low: usize,
    /// The number of ranges that were added.
    added: usize,
}

/// The number of ranges that a CPU adds in a window.
const WINDOW: usize = 32;

/// The number of unused ranges that stay in `loaded`.
const SPARE: usize = 24;

/// The least number of further ones that are a surplus.
const MIN_SURPLUS: usize = 24;

/// Magazines that are freed, or emptied and freed, after the lock is released.
pub(super) type MagazinePair = [Option<MagazineBox>; 2];

/// The result of adding a range to a slot.
pub(super) enum Push {
    Done,
    /// The range was added, and the window is over.
    Due,
    /// The slot has no room. An empty magazine provides room.
    NoRoom(Pfn),
    /// The CPU is offline.
    Closed(Pfn),
}

impl CpuRcache {
    pub(super) const fn new() -> Self {
        Self {
            loaded: None,
            prev: None,
            used: Used { low: 0, added: 0 },
            is_open: true,
        }
    }

    /// Removes a range that starts at `limit_pfn` or below.
    ///
    /// Returns `Ok(None)` if all ranges are above the limit, and fails if there are no ranges.
    #[inline]
    pub(super) fn pop(&mut self, limit_pfn: usize) -> Result<Option<Pfn>, ()> {
        let has_some =
            |magazine: &Option<MagazineBox>| magazine.as_ref().is_some_and(|it| !it.is_empty());

        if !has_some(&self.loaded) {
            if !has_some(&self.prev) {
                return Err(());
            }
            mem::swap(&mut self.loaded, &mut self.prev);
        }
        let Some(loaded) = self.loaded.as_mut() else {
            return Ok(None);
        };
        let pfn = loaded.pop(limit_pfn);
        self.used.low = self.used.low.min(loaded.len());
        Ok(pfn)
    }

    /// Adds a range.
    #[inline]
    pub(super) fn push(&mut self, pfn: Pfn) -> Push {
        if !self.is_open {
            return Push::Closed(pfn);
        }
        let has_room =
            |magazine: &Option<MagazineBox>| magazine.as_ref().is_some_and(|it| !it.is_full());

        if !has_room(&self.loaded) && has_room(&self.prev) {
            mem::swap(&mut self.loaded, &mut self.prev);
        }
        match self.loaded.as_mut() {
            Some(loaded) => match loaded.push(pfn) {
                Ok(()) => {
                    self.used.added += 1;
                    if self.used.added < WINDOW {
                        Push::Done
                    } else {
                        Push::Due
                    }
                }
                Err(pfn) => Push::NoRoom(pfn),
            },
            None => Push::NoRoom(pfn),
        }
    }

    /// Returns whether both magazines are full, so that a new one replaces one of them.
    pub(super) fn is_full(&self) -> bool {
        let is_full =
            |magazine: &Option<MagazineBox>| magazine.as_ref().is_some_and(|it| it.is_full());
        is_full(&self.loaded) && is_full(&self.prev)
    }

    /// Loads an empty magazine, and returns the magazine that it replaces.
    pub(super) fn load_empty(&mut self, magazine: Option<MagazineBox>) -> Option<MagazineBox> {
        let loaded = mem::replace(&mut self.loaded, magazine);
        if self.prev.is_none() {
            self.prev = loaded;
            return None;
        }
        loaded
    }

    /// Returns whether the slot is open and has no ranges.
    pub(super) fn wants_refill(&self) -> bool {
        self.is_open && self.is_empty()
    }

    /// Loads a magazine with ranges, and returns the empty magazine that it replaces.
    pub(super) fn refill(&mut self, magazine: MagazineBox) -> Option<MagazineBox> {
        self.loaded.replace(magazine)
    }

    /// Returns how many ranges of `loaded` are a surplus, if a window is over, and begins the next.
    pub(super) fn surplus(&mut self) -> Option<usize> {
        if self.used.added < WINDOW {
            return None;
        }
        let begun = Used {
            low: self.loaded.as_ref().map_or(0, |it| it.len()),
            added: 0,
        };
        let low = mem::replace(&mut self.used, begun).low;
        low.checked_sub(SPARE).filter(|count| *count >= MIN_SURPLUS)
    }

    /// Moves `count` ranges of `loaded` to another magazine, or fewer if there are fewer.
    pub(super) fn move_loaded(&mut self, to: &mut MagazineBox, count: usize) {
        if let Some(loaded) = self.loaded.as_mut() {
            loaded.move_to(to, count);
            self.used.low = self.used.low.min(loaded.len());
        }
    }

    /// Removes all magazines.
    pub(super) fn take(&mut self) -> MagazinePair {
        [self.loaded.take(), self.prev.take()]
    }

    /// Puts empty magazines back into free places, and returns the others.
    pub(super) fn put_back(&mut self, magazines: MagazinePair) -> MagazinePair {
        if !self.is_open {
            return magazines;
        }
        magazines.map(|magazine| {
            for place in [&mut self.loaded, &mut self.prev] {
                if place.is_none() {
                    *place = magazine;
                    return None;
                }
            }
            magazine
        })
    }

    /// Removes all magazines, and adds none before [`open()`](Self::open).
    pub(super) fn close(&mut self) -> MagazinePair {
        self.is_open = false;
        self.take()
    }

    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    /// Returns whether the slot may cache ranges.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the number of magazines and of ranges.
    pub(super) fn count(&self) -> (usize, usize) {
        let magazines = [&self.loaded, &self.prev];
        let ranges = |it: &Option<MagazineBox>| it.as_ref().map_or(0, |it: &MagazineBox| it.len());
        (
            magazines.iter().filter(|it| it.is_some()).count(),
            magazines.into_iter().map(ranges).sum(),
        )
    }

    fn is_empty(&self) -> bool {
        let is_empty = |it: &Option<MagazineBox>| it.as_ref().is_none_or(|it| it.is_empty());
        is_empty(&self.loaded) && is_empty(&self.prev)
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_iova_cpu_rcache)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    use super::super::array::Magazine;

    /// As if the CPU went offline while another CPU emptied its magazines.
    #[test]
    fn closed_slot_gets_no_magazine_back() -> Result {
        let mut slot = CpuRcache::new();
        let empty = KBox::new(Magazine::EMPTY, GFP_KERNEL)?;
        assert!(slot.load_empty(Some(empty)).is_none());

        let taken = slot.take();
        assert!(slot.close().iter().all(Option::is_none));
        let left = slot.put_back(taken);
        assert_eq!(left.iter().flatten().count(), 1);
        assert_eq!(slot.count(), (0, 0));

        slot.open();
        assert!(slot.put_back(left).iter().all(Option::is_none));
        assert_eq!(slot.count(), (1, 0));
        Ok(())
    }
}
