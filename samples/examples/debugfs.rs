// SPDX-License-Identifier: GPL-2.0

//! A file in debugfs that shows a number, and one that resets it.

use kernel::{
    fmt,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    uaccess::UserSliceReader, //
};

use kscale::lib::debugfs::{
    Dir,
    File,
    Files, //
};

struct Cache {
    hits: Atomic<u64>,
}

#[vtable]
impl Files for Cache {
    const FILES: &'static [File<Self>] = &[
        File::read_only(c"hits", Self::show),
        File::write_only(c"reset", Self::reset),
    ];
}

impl Cache {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.hits.load(Relaxed))
    }

    /// For any input.
    fn reset(&self, _: &mut UserSliceReader) -> Result {
        self.hits.store(0, Relaxed);
        Ok(())
    }
}

pub(crate) fn example() -> Result {
    let cache = Arc::new(
        Cache {
            hits: Atomic::new(0),
        },
        GFP_KERNEL,
    )?;
    let dir = Dir::new(c"example", cache.clone())?;

    cache.hits.add(1, Relaxed);
    // The files are removed. A process may still have them open, but no function runs any more.
    drop(dir);
    Ok(())
}
