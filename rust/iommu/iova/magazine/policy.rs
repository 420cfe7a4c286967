// SPDX-License-Identifier: GPL-2.0

//! Policies of the depot: how many magazines it keeps, and what CPUs return to it.

/// The action for a full magazine for which its CPU has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenFull {
    /// Move the magazine to the depot.
    Keep,
    /// Free the ranges of the magazine into the tree.
    Free,
    /// Keep the magazine, and free the ranges of all CPUs into the tree.
    FlushCpus,
}

/// The policy of the depot of one size. It is called with the lock of the depot held.
pub(super) trait DepotPolicy {
    /// Returns the action for a full magazine, if the depot has `depot` magazines.
    fn on_full(&self, depot: usize) -> WhenFull;

    /// Called before one of `depot` magazines is removed.
    fn on_taken(&mut self, depot: usize) {
        let _ = depot;
    }

    /// Returns how many of `depot` magazines are surplus, if `online` CPUs are online.
    ///
    /// Called 100 ms after a magazine was added, and then every 100 ms while
    /// [`is_due()`](Self::is_due) returns true.
    fn trim(&mut self, depot: usize, online: usize) -> usize {
        let _ = (depot, online);
        0
    }

    /// Returns whether to call `trim()` again, after it returned `count` for `depot` magazines.
    fn is_due(&self, depot: usize, count: usize) -> bool {
        let _ = (depot, count);
        false
    }
}

/// The policy of a depot: how many magazines it keeps, and what CPUs return to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Keeps 32 magazines, and frees the ranges of further ones into the tree.
    ///
    /// As the kernel of 2016, when the caches were added.
    FixedDrop,
    /// Keeps 32 magazines. A further one makes all CPUs free their ranges into the tree.
    ///
    /// As the patch "iommu/iova: Flush CPU rcache for when a depot fills", which was not merged.
    FixedFlush,
    /// Keeps two magazines for each CPU.
    ///
    /// As a reviewer of that patch asked for: a bound that scales with the number of CPUs.
    Scaled,
    /// Keeps all magazines. Frees one every 100 ms while there are more of them than online CPUs.
    ///
    /// As Linux 7.3, which has a work item for each size. A [`Cache`](super::Cache) has one.
    Trimmed,
    /// Keeps all magazines, and makes CPUs return to the depot what they do not use.
    ///
    /// A CPU looks after every 32nd range that it frees. Of the ranges in its loaded magazine that
    /// it did not use since the last look it keeps 24, and returns the others if these are at least
    /// 24. Magazines that stayed in the depot for 32 s are freed within the next 32 s.
    Adaptive,
}

impl Policy {
    /// All policies, in the order of their age.
    pub const ALL: [Self; 5] = [
        Self::FixedDrop,
        Self::FixedFlush,
        Self::Scaled,
        Self::Trimmed,
        Self::Adaptive,
    ];

    /// Returns whether the policy ever frees magazines of the depot.
    pub(super) fn trims(self) -> bool {
        matches!(self, Self::Trimmed | Self::Adaptive)
    }

    /// Returns whether CPUs return to the depot what they do not use.
    pub(super) fn returns_surplus(self) -> bool {
        self == Self::Adaptive
    }

    /// Returns the initial state of the policy for `cpus` CPUs.
    pub(super) fn state(self, cpus: usize) -> State {
        State {
            policy: self,
            cpus,
            surplus: SurplusWindow::default(),
        }
    }
}

/// The maximum number of magazines of a depot of fixed size. C: `MAX_GLOBAL_MAGS`, until Linux 6.6.
const FIXED: usize = 32;

/// A policy, and its state.
pub(super) struct State {
    policy: Policy,
    cpus: usize,
    /// For [`Policy::Adaptive`].
    surplus: SurplusWindow,
}

impl DepotPolicy for State {
    fn on_full(&self, depot: usize) -> WhenFull {
        match self.policy {
            Policy::FixedDrop if depot >= FIXED => WhenFull::Free,
            Policy::FixedFlush if depot >= FIXED => WhenFull::FlushCpus,
            Policy::Scaled if depot >= self.cpus.saturating_mul(2) => WhenFull::Free,
            _ => WhenFull::Keep,
        }
    }

    fn on_taken(&mut self, depot: usize) {
        self.surplus.on_taken(depot);
    }

    fn trim(&mut self, depot: usize, online: usize) -> usize {
        match self.policy {
            Policy::Trimmed => usize::from(depot > online),
            Policy::Adaptive => self.surplus.trim(depot),
            _ => 0,
        }
    }

    fn is_due(&self, depot: usize, count: usize) -> bool {
        match self.policy {
            // Each remaining magazine had its own call after it was added.
            Policy::Trimmed => count > 0,
            // The window continues until no magazine can become surplus.
            Policy::Adaptive => depot > count,
            _ => false,
        }
    }
}

/// Finds the surplus magazines of a depot: those that no CPU took during a window.
///
/// After the working sets of "Magazines and Vmem" (Bonwick and Adams, USENIX 2001).
#[derive(Default)]
struct SurplusWindow {
    /// The minimum number of magazines since the window began.
    low: usize,
    /// Calls of [`trim()`](Self::trim) since then.
    ticks: usize,
    /// The surplus of the last window that is not freed yet.
    surplus: usize,
}

impl SurplusWindow {
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
        // Free the whole surplus within one window.
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
    fn on_full_matches_the_policy() {
        use WhenFull::{
            FlushCpus,
            Free,
            Keep, //
        };

        // Policy, CPUs, magazines in the depot, action for a further one.
        const ROWS: [(Policy, usize, usize, WhenFull); 15] = [
            (Policy::FixedDrop, 1, 31, Keep),
            (Policy::FixedDrop, 1, 32, Free),
            (Policy::FixedDrop, 4096, 32, Free),
            (Policy::FixedFlush, 1, 31, Keep),
            (Policy::FixedFlush, 4096, 32, FlushCpus),
            (Policy::Scaled, 1, 1, Keep),
            (Policy::Scaled, 1, 2, Free),
            (Policy::Scaled, 16, 31, Keep),
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
    fn only_adaptive_returns_surplus() {
        for policy in Policy::ALL {
            assert_eq!(policy.returns_surplus(), policy == Policy::Adaptive);
        }
    }

    #[test]
    fn trims_matches_trim() {
        for policy in Policy::ALL {
            let mut state = policy.state(4);
            let trimmed = (0..2 * SurplusWindow::WINDOW).any(|_| state.trim(4096, 4) > 0);
            assert_eq!(trimmed, policy.trims());
        }
    }

    #[test]
    fn trimmed_frees_one_magazine_above_the_online_cpus() {
        // Magazines, online CPUs, surplus.
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

    #[test]
    fn adaptive_is_due_while_a_magazine_is_left() {
        // Magazines, surplus that is freed, whether to look again.
        const ROWS: [(usize, usize, bool); 5] = [
            (0, 0, false),
            (1, 0, true),
            (1, 1, false),
            (3, 2, true),
            (3, 3, false),
        ];
        let state = Policy::Adaptive.state(4);

        for (depot, count, expected) in ROWS {
            assert_eq!(state.is_due(depot, count), expected);
        }
    }

    /// Returns how many magazines a depot loses in a window, if `taken` are removed and added again
    /// in each tick.
    fn trim_a_window(state: &mut State, depot: &mut usize, taken: usize) -> usize {
        let before = *depot;
        for _ in 0..SurplusWindow::WINDOW {
            for count in 0..taken.min(*depot) {
                state.on_taken(*depot - count);
            }
            *depot -= state.trim(*depot, 4);
        }
        before - *depot
    }

    #[test]
    fn unused_surplus_is_trimmed_within_two_windows() {
        // Magazines, magazines in use, magazines left in the end.
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

            // The first window is not complete.
            trim_a_window(&mut state, &mut depot, taken);
            assert!(depot + magazines.div_ceil(SurplusWindow::WINDOW) >= magazines);
            for _ in 0..2 {
                trim_a_window(&mut state, &mut depot, taken);
            }
            assert_eq!(depot, expected);
            assert_eq!(trim_a_window(&mut state, &mut depot, taken), 0);
        }
    }

    #[test]
    fn reused_magazines_are_not_trimmed() {
        let mut state = Policy::Adaptive.state(4);
        const MAGAZINES: usize = 10 * SurplusWindow::WINDOW;
        let mut depot = MAGAZINES;

        for _ in 0..2 * SurplusWindow::WINDOW - 1 {
            assert_eq!(state.trim(depot, 4), 0);
        }
        depot -= state.trim(depot, 4);
        let begun = depot < MAGAZINES;
        // All of them are removed and added again.
        for left in (0..depot).rev() {
            state.on_taken(left + 1);
        }

        assert!(begun);
        for _ in 0..SurplusWindow::WINDOW {
            assert_eq!(state.trim(depot, 4), 0);
        }
    }
}
