// SPDX-License-Identifier: GPL-2.0

//! The depot: the magazines of one size that belong to no CPU.

use core::mem;

use super::{
    array::List,
    policy::{
        DepotPolicy,
        WhenFull, //
    },
    MagazineBox, //
};

/// Magazines with ranges, and the policy for them.
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

    /// Returns the maximum number of magazines since the last call.
    pub(super) fn take_longest(&mut self) -> usize {
        let len = self.len();
        mem::replace(&mut self.longest, len)
    }

    /// Returns the policy's action for a full magazine.
    pub(super) fn when_full(&self) -> WhenFull {
        self.policy.on_full(self.len())
    }

    /// Adds a magazine.
    pub(super) fn push(&mut self, magazine: MagazineBox) {
        self.magazines.push(magazine);
        self.longest = self.longest.max(self.len());
    }

    /// Removes a magazine for a CPU without ranges.
    pub(super) fn pop(&mut self) -> Option<MagazineBox> {
        self.policy.on_taken(self.len());
        self.magazines.pop()
    }

    /// Removes a surplus magazine.
    pub(super) fn pop_surplus(&mut self) -> Option<MagazineBox> {
        self.magazines.pop()
    }

    /// Returns the number of surplus magazines, and whether to ask again after they are freed.
    pub(super) fn trim(&mut self, online: usize) -> (usize, bool) {
        let len = self.len();
        let count = self.policy.trim(len, online);
        (count, self.policy.is_due(len, count))
    }
}
