// SPDX-License-Identifier: GPL-2.0

//! What the files in debugfs do.

use kernel::{
    fmt,
    new_mutex,
    prelude::*,
    sync::Mutex,
    uaccess::UserSliceReader, //
};

use core::str;

use super::{
    load::{
        ways,
        Load,
        Way, //
    },
    real_cpus::{
        self,
        Measured, //
    },
    results::Results,
    virtual_cpus,
    workload::Workload, //
};

/// Longest line that the files take, in bytes.
const LINE_BYTES: usize = 128;

/// What was found with one way.
enum Found {
    Virtual(Results),
    Real(Measured),
}

/// The last storm.
#[pin_data]
pub(crate) struct Storms {
    #[pin]
    last: Mutex<KVec<(Way, Found)>>,
}

impl Storms {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            last <- new_mutex!(KVec::new()),
        })
    }

    /// Runs `run` with the ways that the first word of a line names, and the words after that.
    fn run<L>(
        &self,
        reader: &mut UserSliceReader,
        parse: fn(str::SplitAsciiWhitespace<'_>) -> Option<L>,
        run: impl Fn(&L, Way) -> Result<Option<Found>>,
    ) -> Result {
        let mut buffer = [0; LINE_BYTES];
        let line = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
        reader.read_slice(line)?;
        let line = str::from_utf8(line).map_err(|_| EINVAL)?;
        let mut words = line.split_ascii_whitespace();
        let ways = ways(words.next().ok_or(EINVAL)?).ok_or(EINVAL)?;
        let load = parse(words).ok_or(EINVAL)?;

        // One storm at a time.
        let mut last = self.last.lock();
        last.clear();
        for way in ways {
            if let Some(found) = run(&load, way)? {
                last.push((way, found), GFP_KERNEL)?;
            }
        }
        if last.is_empty() {
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// `<policy, or all> <name>=<value> ...`, as [`Workload`] has them.
pub(crate) fn run_virtual(storms: &Storms, reader: &mut UserSliceReader) -> Result {
    storms.run(reader, Workload::parse, |load, way| match way {
        Way::Magazines(policy) => Ok(Some(Found::Virtual(virtual_cpus::run(load, policy)?))),
        // These know no CPUs but the machine's.
        Way::Tree | Way::Rcaches => Ok(None),
    })
}

/// `<policy, tree, rcaches or all> <name>=<value> ...`, as [`Load`] has them.
pub(crate) fn run_real(storms: &Storms, reader: &mut UserSliceReader) -> Result {
    storms.run(reader, Load::parse, |load, way| {
        Ok(Some(Found::Real(real_cpus::run(load, way)?)))
    })
}

/// Prints a line for each way of the last storm.
pub(crate) fn result(storms: &Storms, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (way, found) in storms.last.lock().iter() {
        write!(f, "{:11}", way.name())?;
        match found {
            Found::Virtual(results) => write_results(results, f)?,
            Found::Real(measured) => write_measured(measured, f)?,
        }
    }
    Ok(())
}

fn write_results(results: &Results, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sums = &results.sums;
    for (name, count) in [
        ("allocs", sums.tree_allocs),
        ("frees", sums.tree_frees),
        ("steals", sums.steals),
        ("visits", sums.visits),
    ] {
        let centi = results.centi_per_1000(count);
        write!(f, " {name} {}.{:02}", centi / 100, centi % 100)?;
    }
    write!(
        f,
        " KiB {} disturbed {} depot",
        results.peak_bytes.div_ceil(1024),
        results.recovery.disturbed_ios(),
    )?;
    for longest in results.depot {
        write!(f, " {longest}")?;
    }
    writeln!(f)
}

fn write_measured(measured: &Measured, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let sums = &measured.sums;
    writeln!(
        f,
        " ios {} ns {} failures {} tree_allocs {} tree_frees {} steals {} visits {}",
        measured.ios,
        measured.elapsed_ns,
        measured.failures,
        sums.tree_allocs,
        sums.tree_frees,
        sums.steals,
        sums.visits,
    )
}
