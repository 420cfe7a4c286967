// SPDX-License-Identifier: GPL-2.0

//! The magazines of one size that no CPU has.

use core::mem;

use super::{
    array::List,
    policy::{
        DepotPolicy,
        WhenFull, //
    },
    MagazineBox, //
};

/// Magazines with ranges, and what decides how many there may be.
pub(super) struct Depot<P> {
    magazines: List,
    policy: P,
    longest: usize,
}

impl<P: DepotPolicy> Depot<P> {
    pub(super) fn new(policy: P) -> Self {
        Self {
            magazines: List::new(),
            policy,
            longest: 0,
        }
    }

    /// Returns the number of magazines.
    pub(super) fn len(&self) -> usize {
        self.magazines.len()
    }

    /// Returns the number of ranges.
    pub(super) fn ranges(&self) -> usize {
        self.magazines.ranges()
    }

    /// Returns the most magazines that there were since this was called.
    pub(super) fn take_longest(&mut self) -> usize {
        let len = self.len();
        mem::replace(&mut self.longest, len)
    }

    /// Returns what decides.
    pub(super) fn policy(&self) -> &P {
        &self.policy
    }

    /// Decides what becomes of a full magazine.
    pub(super) fn when_full(&self) -> WhenFull {
        self.policy.on_full(self.len())
    }

    /// Adds a magazine.
    pub(super) fn push(&mut self, magazine: MagazineBox) {
        self.magazines.push(magazine);
        self.longest = self.longest.max(self.len());
    }

    /// Takes a magazine for a CPU that needs one.
    pub(super) fn pop(&mut self) -> Option<MagazineBox> {
        self.policy.on_taken(self.len());
        self.magazines.pop()
    }

    /// Takes one of the magazines that nobody needs.
    pub(super) fn pop_surplus(&mut self) -> Option<MagazineBox> {
        self.magazines.pop()
    }

    /// Returns how many magazines nobody needs, and whether to ask again when they have gone.
    pub(super) fn trim(&mut self, online: usize) -> (usize, bool) {
        let len = self.len();
        let count = self.policy.trim(len, online);
        (count, self.policy.is_due(len, count))
    }
}
