// SPDX-License-Identifier: GPL-2.0

//! The debugfs files of the sample.

use kernel::{
    fmt,
    prelude::*,
    uaccess::UserSliceReader, //
};

use core::str;

use super::{
    cache::Cache,
    stats::Event, //
};

/// Maximum length of a line, in bytes.
const LINE_BYTES: usize = 64;

/// Maximum number of keys in a line.
const MAX_KEYS: u64 = 1 << 20;

/// Looks up the keys `<key> [<last key>]`.
pub(crate) fn get(cache: &Cache, reader: &mut UserSliceReader) -> Result {
    let mut buffer = [0; LINE_BYTES];
    let line = buffer.get_mut(..reader.len()).ok_or(EINVAL)?;
    reader.read_slice(line)?;
    let line = str::from_utf8(line).map_err(|_| EINVAL)?;

    let mut words = line.split_ascii_whitespace();
    let first = parse(words.next().ok_or(EINVAL)?)?;
    let last = words.next().map_or(Ok(first), parse)?;
    if words.next().is_some() || last < first || last - first >= MAX_KEYS {
        return Err(EINVAL);
    }
    for key in first..=last {
        if !cache.get(key)?.is_intact() {
            return Err(EIO);
        }
    }
    Ok(())
}

fn parse(word: &str) -> Result<u64> {
    word.parse().map_err(|_| EINVAL)
}

/// Prints the counts.
pub(crate) fn stats(cache: &Cache, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (hits, misses) = (cache.events.of(Event::Hit), cache.events.of(Event::Miss));
    let percent = hits.saturating_mul(100).checked_div(hits + misses);

    writeln!(f, "objects {}", cache.lru.count())?;
    writeln!(f, "hits {hits}")?;
    writeln!(f, "misses {misses}")?;
    writeln!(f, "hit_rate_percent {}", percent.unwrap_or(0))?;
    writeln!(f, "evicted {}", cache.events.of(Event::Evicted))?;
    writeln!(f, "rotated {}", cache.events.of(Event::Rotated))
}

/// Prints the keys of the last evicted objects.
pub(crate) fn evicted(cache: &Cache, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for key in cache.evicted.lock().iter() {
        writeln!(f, "{key}")?;
    }
    Ok(())
}
