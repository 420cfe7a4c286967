// SPDX-License-Identifier: GPL-2.0

//! The failures and the status of the legs.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    sync::atomic::Relaxed, //
};

use kscale::block::dm;

use crate::{
    line::Leg,
    set::MirrorSet, //
};

/// The kinds of failures of a leg, the most severe one last.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    Read,
    Sync,
    Write,
}

impl Leg {
    /// Returns whether the leg has failed since it was in sync.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors.iter().any(|count| count.load(Relaxed) != 0)
    }

    /// Returns the letter of the most severe failure. C: `device_status_char()`.
    fn letter(&self) -> char {
        let [reads, syncs, writes] = self.errors.each_ref().map(|count| count.load(Relaxed));
        match (reads, syncs, writes) {
            (0, 0, 0) => 'A',
            (_, 0, 0) => 'R',
            (_, _, 0) => 'S',
            _ => 'D',
        }
    }
}

impl MirrorSet {
    /// Counts a failure of a leg. The first of each kind triggers an event.
    pub(crate) fn fail(&self, leg: usize, failure: Failure) {
        let count = &self.line.legs[leg].errors[failure as usize];
        if count.fetch_add(1, Relaxed) == 0 && self.line.handles_errors {
            self.event.trigger();
        }
    }

    /// Forgets the failures of the legs, which are in sync.
    pub(crate) fn forget_failures(&self) {
        let counts = self.line.legs.iter().flat_map(|leg| &leg.errors);
        counts.for_each(|count| count.store(0, Relaxed));
    }

    /// Writes the legs, the regions in sync, a letter for each leg, and the type of the log.
    pub(crate) fn write_info(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "2 ")?;
        for leg in &self.line.legs {
            let device = out.device_name(leg.device).unwrap_or_default();
            write!(out, "{device} ")?;
        }
        let (synced, n_regions) = (self.state.lock().synced, self.line.n_regions);
        let [first, second] = self.line.legs.each_ref().map(Leg::letter);
        write!(out, "{synced}/{n_regions} 1 {first}{second} 1 core")
    }

    /// Writes the arguments of the line.
    pub(crate) fn write_table(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let line = &self.line;
        let (n_log_args, sync) = match line.sync {
            None => (1, ""),
            Some(true) => (2, " sync"),
            Some(false) => (2, " nosync"),
        };
        write!(out, "core {n_log_args} {}{sync} 2", line.region_sectors)?;
        for leg in &line.legs {
            let device = out.device_name(leg.device).unwrap_or_default();
            write!(out, " {device} {}", leg.start_sectors)?;
        }
        match (line.handles_errors, line.keeps_log) {
            (false, _) => Ok(()),
            (true, false) => write!(out, " 1 handle_errors"),
            (true, true) => write!(out, " 2 handle_errors keep_log"),
        }
    }

    /// Writes the attributes that the Integrity Measurement Architecture measures.
    pub(crate) fn write_ima(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let line = &self.line;
        write!(out, ",nr_mirrors=2")?;
        for (i, leg) in line.legs.iter().enumerate() {
            let device = out.device_name(leg.device).unwrap_or_default();
            write!(out, ",mirror_device_{i}={device}")?;
            write!(out, ",mirror_device_{i}_status={}", leg.letter())?;
        }
        let [handles_errors, keeps_log] =
            [line.handles_errors, line.keeps_log].map(|is| if is { 'y' } else { 'n' });
        write!(
            out,
            ",handle_errors={handles_errors},keep_log={keeps_log},log_type_status=;"
        )
    }
}
