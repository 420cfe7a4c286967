// SPDX-License-Identifier: GPL-2.0

//! How long it takes after a burst until the tree is used no more than before.

/// I/Os that are counted together.
const WINDOW: usize = 1000;

/// Operations more than usual in a window that disturb nobody: one in 100 I/Os.
const NOISE: usize = 10;

/// Watches I/Os in windows, before a burst and after it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    ios: usize,
    /// Operations on the tree when the window began.
    began_at: usize,
    /// The most in a window before the burst.
    most_before: usize,
    has_burst: bool,
    /// I/Os after the burst until the end of the last window with more than that.
    disturbed: usize,
}

impl Recovery {
    /// Hears of an I/O, and asks for the number of operations on the tree so far if it needs that.
    pub(crate) fn on_io(&mut self, tree_ops: impl FnOnce() -> usize) {
        self.ios += 1;
        if self.ios % WINDOW != 0 {
            return;
        }
        let tree_ops = tree_ops();
        let ops = tree_ops - self.began_at;
        self.began_at = tree_ops;
        if !self.has_burst {
            self.most_before = self.most_before.max(ops);
        } else if ops > self.most_before + NOISE {
            self.disturbed = self.ios;
        }
    }

    /// Begins to watch what is normal, with the number of operations on the tree so far.
    pub(crate) fn start(&mut self, tree_ops: usize) {
        *self = Self {
            began_at: tree_ops,
            ..Self::default()
        };
    }

    /// Hears that there is a burst now. What it does to the tree itself counts.
    pub(crate) fn on_burst(&mut self, tree_ops: usize) {
        self.began_at = tree_ops;
        self.ios = 0;
        self.has_burst = true;
    }

    /// Returns how many I/Os the burst disturbed.
    pub(crate) fn disturbed_ios(&self) -> usize {
        self.disturbed
    }
}
