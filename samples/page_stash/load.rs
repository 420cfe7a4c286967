// SPDX-License-Identifier: GPL-2.0

//! A load, and what was found under it.

use kernel::{
    fmt,
    prelude::*, //
};

use core::{
    ops::AddAssign,
    str::SplitAsciiWhitespace, //
};

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Tasks that get and put pages.
    pub(crate) tasks: u16,
    /// Calls that all of them together make, half of them to get and half to put a page.
    pub(crate) calls: u64,
    /// The CPU whose pages they are; [`None`]: each of them takes those of all in turn.
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

/// What tasks did, and found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    /// Pages that were had of the cache or of the page allocator.
    pub(crate) gets: u64,
    /// Pages that were given back to either.
    pub(crate) puts: u64,
    /// Pages that somebody else had at the same time.
    pub(crate) shared: u64,
    /// Times that there was no page to be had at all.
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

/// What was found.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) tally: Tally,
    /// Pages that are nowhere.
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
