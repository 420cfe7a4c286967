// SPDX-License-Identifier: GPL-2.0

//! The debugfs files of the sample.

use kernel::{
    fmt,
    new_mutex,
    prelude::*,
    sync::Mutex,
    uaccess::UserSliceReader, //
};

use core::str;

use kscale::lib::debugfs::{
    File,
    Files, //
};

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

/// Maximum length of a line written to a file, in bytes.
const LINE_BYTES: usize = 128;

/// The results of one way to allocate ranges.
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

#[vtable]
impl Files for Storms {
    const FILES: &'static [File<Self>] = &[
        File::write_only(c"virtual", run_virtual),
        File::write_only(c"real", run_real),
        File::read_only(c"result", result),
    ];
}

impl Storms {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            last <- new_mutex!(KVec::new()),
        })
    }

    /// Calls `run` for the ways that the first word selects; the other words are the load.
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

        // Storms run one at a time.
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

/// Runs `<policy, or all> <name>=<value> ...` on virtual CPUs, see [`Workload`].
fn run_virtual(storms: &Storms, reader: &mut UserSliceReader) -> Result {
    storms.run(reader, Workload::parse, |load, way| match way {
        Way::Magazines(policy) => Ok(Some(Found::Virtual(virtual_cpus::run(load, policy)?))),
        // The tree and the kernel's caches support real CPUs only.
        Way::Tree | Way::Rcaches => Ok(None),
    })
}

/// Runs `<policy, tree, rcaches or all> <name>=<value> ...` on real CPUs, see [`Load`].
fn run_real(storms: &Storms, reader: &mut UserSliceReader) -> Result {
    storms.run(reader, Load::parse, |load, way| {
        Ok(Some(Found::Real(real_cpus::run(load, way)?)))
    })
}

/// Prints a line for each way of the last storm.
fn result(storms: &Storms, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    for (name, count) in [("allocs", sums.tree_allocs), ("frees", sums.tree_frees)] {
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
        " ios {} ns {} failures {} tree_allocs {} tree_frees {}",
        measured.ios, measured.elapsed_ns, measured.failures, sums.tree_allocs, sums.tree_frees,
    )
}
