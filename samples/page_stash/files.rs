// SPDX-License-Identifier: GPL-2.0

//! The debugfs files of the sample.

use kernel::{
    cpu::CpuId,
    fmt,
    prelude::*,
    uaccess::UserSliceReader, //
};

use core::str;

use super::{
    load::Load,
    service::Service,
    tasks, //
};

/// Maximum length of a line written to a file, in bytes.
const LINE_BYTES: usize = 128;

/// Maximum number of held pages.
const MAX_HELD: usize = 4096;

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

/// Parses `<number of pages> <CPU>`.
fn count_and_cpu(reader: &mut UserSliceReader) -> Result<(usize, CpuId)> {
    with_words(reader, |mut words| {
        let mut number = || words.next().and_then(|word| word.parse().ok());
        let (count, cpu) = number().zip(number()).ok_or(EINVAL)?;
        // CAST: From 32 to 64 bits.
        match words.next() {
            None if count as usize <= MAX_HELD => {
                Ok((count as usize, CpuId::from_u32(cpu).ok_or(EINVAL)?))
            }
            _ => Err(EINVAL),
        }
    })
}

/// Takes pages from the stash of a CPU, or from the page allocator, and holds them.
pub(crate) fn get(service: &Service, reader: &mut UserSliceReader) -> Result {
    let (count, cpu) = count_and_cpu(reader)?;
    let mut held = service.held.lock();

    for _ in 0..count {
        if held.len() >= MAX_HELD {
            return Err(ENOSPC);
        }
        held.reserve(1, GFP_KERNEL)?;
        // The capacity is reserved.
        let _ = held.push_within_capacity(service.pages.get(cpu)?);
    }
    Ok(())
}

/// Puts held pages into the stash of a CPU.
pub(crate) fn put(service: &Service, reader: &mut UserSliceReader) -> Result {
    let (count, cpu) = count_and_cpu(reader)?;

    for _ in 0..count {
        let page = service.held.lock().pop();
        service.pages.put(cpu, page.ok_or(ENOENT)?);
    }
    Ok(())
}

/// Fills the stash, for any input.
pub(crate) fn fill(service: &Service, reader: &mut UserSliceReader) -> Result {
    reader.skip(reader.len())?;
    service.pages.cache.fill()
}

/// Drains the stash, for any input.
pub(crate) fn drain(service: &Service, reader: &mut UserSliceReader) -> Result {
    reader.skip(reader.len())?;
    service.pages.cache.drain();
    Ok(())
}

/// Runs the load `<name>=<number> ...`, see [`Load`].
pub(crate) fn run(service: &Service, reader: &mut UserSliceReader) -> Result {
    let load = with_words(reader, Load::parse)?;
    let results = tasks::run(service, load)?;
    *service.last.lock() = results;
    Ok(())
}

pub(crate) fn state(service: &Service, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    service.write_state(f)
}

pub(crate) fn cpus(service: &Service, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    service.write_cpus(f)
}

pub(crate) fn load(service: &Service, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    service.last.lock().write(f)
}
