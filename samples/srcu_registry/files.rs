// SPDX-License-Identifier: GPL-2.0

//! The debugfs files of the sample.

use kernel::{
    fmt,
    prelude::*,
    sync::atomic::Relaxed,
    uaccess::UserSliceReader, //
};

use core::str;

use super::{
    backend::Backend,
    load::Load,
    registry::Registry,
    tasks, //
};

/// Maximum length of a line written to a file, in bytes.
const LINE_BYTES: usize = 128;

/// Calls `f` with the words of the written line.
fn with_words<R>(
    reader: &mut UserSliceReader,
    f: impl FnOnce(str::SplitAsciiWhitespace<'_>) -> Result<R>,
) -> Result<R> {
    let mut buffer = [0; LINE_BYTES];
    let line = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(line)?;
    let line = str::from_utf8(line).map_err(|_| EINVAL)?;

    f(line.split_ascii_whitespace())
}

/// Registers the reclaimer `<name> [<milliseconds that each call sleeps>]`.
pub(crate) fn register<B: Backend>(registry: &Registry<B>, reader: &mut UserSliceReader) -> Result {
    with_words(reader, |mut words| {
        let name = words.next().ok_or(EINVAL)?;
        let sleep_ms = words.next().unwrap_or("0").parse().map_err(|_| EINVAL)?;
        match words.next() {
            None => registry.register(name, sleep_ms),
            Some(_) => Err(EINVAL),
        }
    })
}

/// Calls `f` with the written line, which is `<name>`.
fn with_name(reader: &mut UserSliceReader, f: impl FnOnce(&str) -> Result) -> Result {
    with_words(reader, |mut words| {
        let name = words.next().ok_or(EINVAL)?;
        match words.next() {
            None => f(name),
            Some(_) => Err(EINVAL),
        }
    })
}

/// Unregisters the reclaimer `<name>`.
pub(crate) fn unregister<B: Backend>(
    registry: &Registry<B>,
    reader: &mut UserSliceReader,
) -> Result {
    with_name(reader, |name| registry.unregister(name))
}

/// Ends the sleep of the reclaimer `<name>`.
pub(crate) fn wake<B: Backend>(registry: &Registry<B>, reader: &mut UserSliceReader) -> Result {
    with_name(reader, |name| registry.wake(name))
}

/// Walks the registry, for any input.
pub(crate) fn walk<B: Backend>(registry: &Registry<B>, reader: &mut UserSliceReader) -> Result {
    reader.skip(reader.len())?;
    registry.walk();
    Ok(())
}

/// Runs the load `<name>=<number> ...`, see [`Load`].
pub(crate) fn run<B: Backend>(registry: &Registry<B>, reader: &mut UserSliceReader) -> Result {
    let load = with_words(reader, Load::parse)?;
    let results = tasks::run(registry, &load)?;
    *registry.last.lock() = results;
    Ok(())
}

/// Prints the reclaimers that are registered by name.
pub(crate) fn state<B: Backend>(registry: &Registry<B>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for registered in registry.roster.lock().iter() {
        let reclaimer = &registered.reclaimer;
        let asleep = if reclaimer.is_asleep() { " asleep" } else { "" };

        writeln!(
            f,
            "{} called {}{asleep}",
            reclaimer.name(),
            reclaimer.calls()
        )?;
    }
    Ok(())
}

/// Prints the counts and the results of the last load.
pub(crate) fn stats<B: Backend>(registry: &Registry<B>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counts = &registry.counts;
    writeln!(
        f,
        "walks complete {} cut_short {} skipped {}",
        counts.complete.load(Relaxed),
        counts.cut_short.load(Relaxed),
        counts.skipped.load(Relaxed),
    )?;
    writeln!(
        f,
        "broken late {} lost {}",
        counts.late.load(Relaxed),
        counts.lost.load(Relaxed),
    )?;
    registry.last.lock().write(f)
}

/// Prints percentiles of the duration of `unregister` in the last load, in nanoseconds.
pub(crate) fn percentiles<B: Backend>(
    registry: &Registry<B>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    registry.last.lock().write_percentiles(f)
}
