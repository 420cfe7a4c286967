// SPDX-License-Identifier: GPL-2.0

//! Recovery time after a burst: the number of I/Os until tree use is as before.

/// Number of I/Os in a window.
const WINDOW: usize = 1000;

/// Additional tree operations per window that count as undisturbed: one in 100 I/Os.
const NOISE: usize = 10;

/// Windows of I/Os before and after a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recovery {
    ios: usize,
    /// Tree operations at the start of the window.
    began_at: usize,
    /// Maximum number of tree operations in a window before the burst.
    most_before: usize,
    has_burst: bool,
    /// I/Os from the burst to the end of the last window above `most_before`.
    disturbed: usize,
}

impl Recovery {
    /// Records an I/O. Calls `tree_ops` for the number of tree operations at the end of a window.
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

    /// Starts the measurement before the burst. `tree_ops` is the number of tree operations so far.
    pub(crate) fn start(&mut self, tree_ops: usize) {
        *self = Self {
            began_at: tree_ops,
            ..Self::default()
        };
    }

    /// Records the start of the burst. Its own tree operations count as well.
    pub(crate) fn on_burst(&mut self, tree_ops: usize) {
        self.began_at = tree_ops;
        self.ios = 0;
        self.has_burst = true;
    }

    /// Returns the number of I/Os that the burst disturbed.
    pub(crate) fn disturbed_ios(&self) -> usize {
        self.disturbed
    }
}
