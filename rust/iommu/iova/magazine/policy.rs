// SPDX-License-Identifier: GPL-2.0

//! What a depot does with magazines that CPUs have no room for, and without any.

/// What becomes of a full magazine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// It goes to the depot.
    Keep,
    /// Its ranges go to the tree.
    Free,
    /// It stays, and what all CPUs have goes to the tree.
    FlushCpus,
}

/// What a CPU does that has no ranges, when the depot has no magazines either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenEmpty {
    /// It allocates from the tree.
    Allocate,
    /// It looks for a CPU with ranges to spare first.
    Steal,
}

/// What decides about the depot of one size. It is asked with the depot locked.
pub(super) trait DepotPolicy {
    /// Decides what becomes of a full magazine, when there are `depot` magazines.
    fn on_full(&self, depot: usize) -> WhenFull;

    /// Decides what happens when there are none.
    fn on_empty(&self) -> WhenEmpty {
        WhenEmpty::Allocate
    }

    /// Tells whether a CPU that runs out of ranges gives back both of its empty magazines, not one.
    fn takes_all_empty(&self) -> bool {
        false
    }

    /// Hears that one of `depot` magazines is taken away.
    fn on_taken(&mut self, depot: usize) {
        let _ = depot;
    }

    /// Returns how many of `depot` magazines go to the tree now, if `online` CPUs are online.
    ///
    /// Is called 100 ms after a magazine came, and every 100 ms from then on as long as
    /// [`is_due()`](Self::is_due) says so.
    fn trim(&mut self, depot: usize, online: usize) -> usize {
        let _ = (depot, online);
        0
    }

    /// Tells whether it is to be asked again, `count` of `depot` magazines having gone.
    fn is_due(&self, depot: usize, count: usize) -> bool {
        let _ = (depot, count);
        false
    }
}

/// What a depot does with magazines that no CPU has room for, and when it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Keeps 32 magazines. The ranges of any more go to the tree.
    ///
    /// As in the kernel of 2016, when the caches were added.
    FixedDrop,
    /// Keeps 32 magazines. With any more, what all CPUs have goes to the tree.
    ///
    /// The patch "iommu/iova: Flush CPU rcache for when a depot fills", which was not taken.
    FixedFlush,
    /// Keeps two magazines for each CPU, and 32 at least.
    ///
    /// As the patch's reviewer asked for: a bound that scales as what it bounds does.
    Scaled,
    /// Keeps all magazines. As long as there are more than online CPUs, one goes to the tree every
    /// 100 ms.
    ///
    /// As in Linux 7.3, which has a work item for each size, where a [`Cache`](super::Cache) has one.
    Trimmed,
    /// Keeps all magazines, and lets CPUs take ranges from each other before the tree.
    ///
    /// What stayed in the depot for 32 s goes to the tree within the next 32 s. So there are as many
    /// ranges as were in use at once, and few more, however many CPUs and sizes there are.
    Adaptive,
}

impl Policy {
    /// All of them, in the order of their age.
    pub const ALL: [Self; 5] = [
        Self::FixedDrop,
        Self::FixedFlush,
        Self::Scaled,
        Self::Trimmed,
        Self::Adaptive,
    ];

    /// Tells whether it ever has magazines go that are in the depot.
    pub(super) fn trims(self) -> bool {
        matches!(self, Self::Trimmed | Self::Adaptive)
    }

    /// Returns what decides in its way, for `cpus` CPUs.
    pub(super) fn state(self, cpus: usize) -> State {
        State {
            policy: self,
            cpus,
            settling: Settling::default(),
        }
    }
}

/// Magazines that a depot of fixed size keeps. C: `MAX_GLOBAL_MAGS`, until Linux 6.6.
const FIXED: usize = 32;

/// A policy, and what it remembers.
pub(super) struct State {
    policy: Policy,
    cpus: usize,
    /// For [`Policy::Adaptive`].
    settling: Settling,
}

impl DepotPolicy for State {
    fn on_full(&self, depot: usize) -> WhenFull {
        match self.policy {
            Policy::FixedDrop if depot >= FIXED => WhenFull::Free,
            Policy::FixedFlush if depot >= FIXED => WhenFull::FlushCpus,
            Policy::Scaled if depot >= FIXED.max(self.cpus.saturating_mul(2)) => WhenFull::Free,
            _ => WhenFull::Keep,
        }
    }

    fn on_empty(&self) -> WhenEmpty {
        match self.policy {
            Policy::Adaptive => WhenEmpty::Steal,
            _ => WhenEmpty::Allocate,
        }
    }

    fn takes_all_empty(&self) -> bool {
        self.policy == Policy::Adaptive
    }

    fn on_taken(&mut self, depot: usize) {
        self.settling.on_taken(depot);
    }

    fn trim(&mut self, depot: usize, online: usize) -> usize {
        match self.policy {
            Policy::Trimmed => usize::from(depot > online),
            Policy::Adaptive => self.settling.trim(depot),
            _ => 0,
        }
    }

    fn is_due(&self, depot: usize, count: usize) -> bool {
        match self.policy {
            // What stays came at another time, after which it was asked.
            Policy::Trimmed => count > 0,
            // Time goes on until there is nothing that may settle.
            Policy::Adaptive => depot > count,
            _ => false,
        }
    }
}

/// Finds out what a depot has that nobody needs: what has settled at its bottom.
///
/// After the working sets of "Magazines and Vmem" (Bonwick and Adams, USENIX 2001).
#[derive(Default)]
struct Settling {
    /// The fewest magazines that were left since the window began.
    low: usize,
    /// Calls of [`trim()`](Self::trim) since then.
    ticks: usize,
    /// What the last window found that nobody needed, and that is still there.
    surplus: usize,
}

impl Settling {
    /// Calls of [`trim()`](Self::trim) in a window: 32 s.
    const WINDOW: usize = 320;

    fn on_taken(&mut self, depot: usize) {
        self.low = self.low.min(depot.saturating_sub(1));
    }

    fn trim(&mut self, depot: usize) -> usize {
        self.surplus = self.surplus.min(self.low);
        self.ticks += 1;
        if self.ticks >= Self::WINDOW {
            self.surplus = self.low;
            self.low = depot;
            self.ticks = 0;
        }
        // All of it goes in the time of a window.
        let count = self.surplus.div_ceil(Self::WINDOW - self.ticks).min(depot);
        self.surplus -= count;
        self.low = self.low.saturating_sub(count);
        count
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_iova_magazine_policy)]
mod tests {
    use super::*;

    #[test]
    fn full_magazines_go_where_the_policy_says() {
        use WhenFull::{
            FlushCpus,
            Free,
            Keep, //
        };

        // Policy, CPUs, magazines in the depot, what becomes of one more.
        const ROWS: [(Policy, usize, usize, WhenFull); 13] = [
            (Policy::FixedDrop, 1, 31, Keep),
            (Policy::FixedDrop, 1, 32, Free),
            (Policy::FixedDrop, 4096, 32, Free),
            (Policy::FixedFlush, 1, 31, Keep),
            (Policy::FixedFlush, 4096, 32, FlushCpus),
            (Policy::Scaled, 1, 31, Keep),
            (Policy::Scaled, 16, 32, Free),
            (Policy::Scaled, 17, 33, Keep),
            (Policy::Scaled, 17, 34, Free),
            (Policy::Scaled, usize::MAX, usize::MAX - 1, Keep),
            (Policy::Trimmed, 1, 4096, Keep),
            (Policy::Adaptive, 1, 0, Keep),
            (Policy::Adaptive, 1, 4096, Keep),
        ];

        for (policy, cpus, depot, expected) in ROWS {
            assert_eq!(policy.state(cpus).on_full(depot), expected);
        }
    }

    #[test]
    fn one_policy_steals() {
        for policy in Policy::ALL {
            let steals = policy.state(4).on_empty() == WhenEmpty::Steal;
            assert_eq!(steals, policy == Policy::Adaptive);
        }
    }

    #[test]
    fn those_that_never_trim_say_so() {
        for policy in Policy::ALL {
            let mut state = policy.state(4);
            let trimmed = (0..2 * Settling::WINDOW).any(|_| state.trim(4096, 4) > 0);
            assert_eq!(trimmed, policy.trims());
        }
    }

    #[test]
    fn one_goes_as_long_as_there_are_more_than_cpus() {
        // Magazines, CPUs that are online, how many go.
        const ROWS: [(usize, usize, usize); 6] = [
            (3, 4, 0),
            (4, 4, 0),
            (5, 4, 1),
            (400, 4, 1),
            (2, 1, 1),
            (1, 1, 0),
        ];
        let mut state = Policy::Trimmed.state(4);

        for (depot, online, expected) in ROWS {
            let count = state.trim(depot, online);
            assert_eq!(count, expected);
            assert_eq!(state.is_due(depot, count), count > 0);
        }
    }

    /// Returns what goes of a depot in one window, of which `taken` are taken and come back in each
    /// tick.
    fn trim_a_window(state: &mut State, depot: &mut usize, taken: usize) -> usize {
        let before = *depot;
        for _ in 0..Settling::WINDOW {
            for count in 0..taken.min(*depot) {
                state.on_taken(*depot - count);
            }
            *depot -= state.trim(*depot, 4);
        }
        before - *depot
    }

    #[test]
    fn what_has_settled_goes_within_two_windows() {
        // Magazines, those in use, what is left in the end.
        const ROWS: [(usize, usize, usize); 6] = [
            (0, 0, 0),
            (1, 0, 0),
            (7, 7, 7),
            (7, 20, 7),
            (100, 0, 0),
            (10_000, 60, 60),
        ];

        for (magazines, taken, expected) in ROWS {
            let mut state = Policy::Adaptive.state(4);
            let mut depot = magazines;

            // The first is not a whole one.
            trim_a_window(&mut state, &mut depot, taken);
            assert!(depot + magazines.div_ceil(Settling::WINDOW) >= magazines);
            for _ in 0..2 {
                trim_a_window(&mut state, &mut depot, taken);
            }
            assert_eq!(depot, expected);
            assert_eq!(trim_a_window(&mut state, &mut depot, taken), 0);
        }
    }

    #[test]
    fn what_is_needed_again_stays() {
        let mut state = Policy::Adaptive.state(4);
        const MAGAZINES: usize = 10 * Settling::WINDOW;
        let mut depot = MAGAZINES;

        for _ in 0..2 * Settling::WINDOW - 1 {
            assert_eq!(state.trim(depot, 4), 0);
        }
        depot -= state.trim(depot, 4);
        let begun = depot < MAGAZINES;
        // All of them are taken and come back.
        for left in (0..depot).rev() {
            state.on_taken(left + 1);
        }

        assert!(begun);
        for _ in 0..Settling::WINDOW {
            assert_eq!(state.trim(depot, 4), 0);
        }
    }
}
