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

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_iova_magazine_depot)]
mod tests {
    use super::*;

    use super::super::array::Magazine;

    use kernel::prelude::*;

    /// Records the length of the depot before a magazine was taken.
    struct Record(usize);

    impl DepotPolicy for Record {
        fn on_full(&self, _: usize) -> WhenFull {
            WhenFull::Keep
        }

        fn on_taken(&mut self, depot: usize) {
            self.0 = depot;
        }
    }

    /// Returns a depot with `count` magazines.
    fn depot(count: usize) -> Result<Depot<Record>> {
        let mut depot = Depot::new(Record(usize::MAX));
        for _ in 0..count {
            depot.push(KBox::new(Magazine::EMPTY, GFP_KERNEL)?);
        }
        Ok(depot)
    }

    #[test]
    fn policy_gets_the_length_before_a_magazine_is_taken() -> Result {
        let mut depot = depot(3)?;

        drop(depot.pop_surplus());
        assert_eq!(depot.policy.0, usize::MAX);
        for len in [2, 1, 0] {
            assert_eq!(depot.pop().is_some(), len != 0);
            assert_eq!(depot.policy.0, len);
        }
        Ok(())
    }

    #[test]
    fn longest_depot_is_at_least_the_present_one() -> Result {
        let mut depot = depot(3)?;

        assert_eq!(depot.take_longest(), 3);
        assert_eq!(depot.take_longest(), 3);
        drop(depot.pop());
        assert_eq!(depot.take_longest(), 3);
        assert_eq!(depot.take_longest(), 2);
        Ok(())
    }
}
