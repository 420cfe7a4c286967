// SPDX-License-Identifier: GPL-2.0

//! Parameters and results of a load.

use kernel::{
    fmt,
    prelude::*, //
};

use core::{
    ops::AddAssign,
    str::SplitAsciiWhitespace, //
};

/// The parameters of a load.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Number of tasks that get and put pages.
    pub(crate) tasks: u16,
    /// Total number of calls of all tasks, half of them to get and half to put a page.
    pub(crate) calls: u64,
    /// The CPU whose stash is used. If [`None`], each task uses the stashes of all CPUs in turn.
    pub(crate) cpu: Option<u32>,
}

impl Load {
    /// Parses `<name>=<number> ...`.
    pub(crate) fn parse(words: SplitAsciiWhitespace<'_>) -> Result<Self> {
        let mut load = Self {
            tasks: 4,
            calls: 100_000,
            cpu: None,
        };
        for word in words {
            let (name, number) = word.split_once('=').ok_or(EINVAL)?;
            let number: u64 = number.parse().map_err(|_| EINVAL)?;
            match name {
                // CAST: Checked.
                "tasks" if (1..=64).contains(&number) => load.tasks = number as u16,
                "calls" if number <= 1 << 40 => load.calls = number,
                "cpu" => load.cpu = Some(number.try_into()?),
                _ => return Err(EINVAL),
            }
        }
        Ok(load)
    }
}

/// Counts of the calls of a task.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Pages that the stash or the page allocator returned.
    pub(crate) gets: u64,
    /// Pages that were put into the stash or freed.
    pub(crate) puts: u64,
    /// Pages that two owners had at the same time.
    pub(crate) shared: u64,
    /// Times that no page was available.
    pub(crate) failures: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.gets += other.gets;
        self.puts += other.puts;
        self.shared += other.shared;
        self.failures += other.failures;
    }
}

/// The results of a load.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) tally: Tally,
    /// Pages that are not cached, not held and not freed.
    pub(crate) lost: i64,
    pub(crate) elapsed_ms: i64,
}

impl Results {
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            gets,
            puts,
            shared,
            failures,
        } = self.tally;

        writeln!(
            f,
            "load gets {gets} puts {puts} failures {failures} ms {}",
            self.elapsed_ms
        )?;
        writeln!(f, "broken lost {} shared {shared}", self.lost)
    }
}
