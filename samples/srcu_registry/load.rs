// SPDX-License-Identifier: GPL-2.0

//! Parameters and results of a load.

use kernel::{
    fmt,
    prelude::*, //
};

use core::str::SplitAsciiWhitespace;

use super::latencies::Latencies;

/// The parameters of a load.
#[derive(Clone, Copy, Default)]
pub(crate) struct Load {
    /// Number of tasks that walk.
    pub(crate) readers: u16,
    /// Duration of the load, in milliseconds.
    pub(crate) ms: u16,
    /// Number of reclaimers that stay registered.
    pub(crate) items: u16,
    /// Sleep time of one more reclaimer that stays registered, in milliseconds; 0 for none.
    pub(crate) sleep_ms: u16,
    /// Pause of the writer between two reclaimers, in microseconds.
    pub(crate) pause_us: u16,
}

impl Load {
    /// Parses `<name>=<number> ...`.
    pub(crate) fn parse(words: SplitAsciiWhitespace<'_>) -> Result<Self> {
        let mut load = Self {
            readers: 4,
            ms: 1000,
            items: 16,
            sleep_ms: 0,
            pause_us: 100,
        };
        for word in words {
            let (name, number) = word.split_once('=').ok_or(EINVAL)?;
            let number = number.parse().map_err(|_| EINVAL)?;
            match name {
                "readers" if number <= 64 => load.readers = number,
                "ms" => load.ms = number,
                "items" if number <= 1024 => load.items = number,
                "sleep_ms" => load.sleep_ms = number,
                "pause_us" => load.pause_us = number,
                _ => return Err(EINVAL),
            }
        }
        Ok(load)
    }
}

/// The results of a load.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) load: Load,
    pub(crate) walks: u64,
    pub(crate) cut_short: u64,
    pub(crate) skipped: u64,
    pub(crate) elapsed_ms: i64,
    /// Durations of `unregister`.
    pub(crate) latencies: Latencies,
}

impl Results {
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Load {
            readers,
            items,
            sleep_ms,
            pause_us,
            ..
        } = self.load;

        writeln!(
            f,
            "run readers {readers} items {items} sleep_ms {sleep_ms} pause_us {pause_us} ms {}",
            self.elapsed_ms
        )?;
        writeln!(
            f,
            "run complete {} cut_short {} skipped {}",
            self.walks, self.cut_short, self.skipped
        )?;
        writeln!(
            f,
            "run unregistered {} p50_ns {} p99_ns {} max_ns {}",
            self.latencies.count(),
            self.latencies.percentile_ns(50),
            self.latencies.percentile_ns(99),
            self.latencies.max_ns(),
        )
    }

    /// Writes percentiles of the latencies, one per line.
    pub(crate) fn write_percentiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for percent in [1, 10, 25, 50, 75, 90, 99, 100] {
            writeln!(f, "{percent} {}", self.latencies.percentile_ns(percent))?;
        }
        Ok(())
    }
}
