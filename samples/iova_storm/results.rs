// SPDX-License-Identifier: GPL-2.0

//! The results of a workload: use of the tree, of memory and of the depots.

use super::{
    recovery::Recovery,
    workload::{
        Timer,
        Workload, //
    }, //
};

/// Number of time slices for which the depot length is shown.
const SLICES: usize = 16;

/// Counts of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) tree_allocs: usize,
    pub(crate) tree_frees: usize,
}

impl Sums {
    pub(crate) fn tree_ops(&self) -> usize {
        self.tree_allocs + self.tree_frees
    }
}

/// The results of a workload. Sums cover the second half of the periods, memory and depots all
/// periods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Results {
    pub(crate) ios: usize,
    pub(crate) sums: Sums,
    /// Peak memory of magazines and tree nodes in bytes, including the nodes of used ranges.
    pub(crate) peak_bytes: usize,
    /// Maximum number of magazines in the depots of all sizes, by time slice.
    pub(crate) depot: [usize; SLICES],
    pub(crate) recovery: Recovery,
    /// Sums at the start of the second half.
    from: Sums,
}

impl Results {
    /// Records an I/O. Calls `tree_ops` for the number of tree operations if needed.
    pub(crate) fn on_io(&mut self, tree_ops: impl FnOnce() -> usize) {
        self.ios += 1;
        self.recovery.on_io(tree_ops);
    }

    /// Records that the timer is about to run.
    pub(crate) fn on_timer(&mut self, load: &Workload, tree_ops: usize) {
        if load.timer == Timer::Once {
            self.recovery.on_burst(tree_ops);
        }
    }

    /// Records the state after the I/O or the timer of a period.
    pub(crate) fn observe(
        &mut self,
        load: &Workload,
        period: u32,
        sums: Sums,
        bytes: usize,
        depot: usize,
    ) {
        self.peak_bytes = self.peak_bytes.max(bytes);
        // CAST: To 64 bits.
        let slice = (period as usize * SLICES).checked_div(load.periods as usize);
        if let Some(longest) = slice.and_then(|slice| self.depot.get_mut(slice)) {
            *longest = depot.max(*longest);
        }
        if period < load.half() {
            self.ios = 0;
            self.from = sums;
        }
        self.sums = Sums {
            tree_allocs: sums.tree_allocs - self.from.tree_allocs,
            tree_frees: sums.tree_frees - self.from.tree_frees,
        };
        if period == load.half() / 2 {
            self.recovery.start(sums.tree_ops());
        }
    }

    /// Returns hundredths of a count per 1000 I/Os.
    pub(crate) fn centi_per_1000(&self, count: usize) -> usize {
        count * 100_000 / self.ios.max(1)
    }
}
