// SPDX-License-Identifier: GPL-2.0

//! A data race in Rust, and the same code without a race, to check that KCSAN reports only the
//! first.
//!
//! ```sh
//! cd /sys/kernel/debug/racy
//! echo >plain & echo >plain        # both tasks add to a plain number: a data race
//! echo >atomic & echo >atomic      # both tasks add to an atomic: no data race
//! ```

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    }, //
};

use core::cell::UnsafeCell;

use kscale::lib::debugfs::{
    Dir,
    File,
    Files, //
};

module! {
    type: RacyModule,
    name: "racy",
    authors: ["The kscale authors"],
    description: "A data race, for tests",
    license: "GPL",
}

/// The number of additions per write. KCSAN watches one access in thousands.
const TIMES: usize = 100_000;

/// A number that all tasks may add to without synchronisation.
struct Plain(UnsafeCell<u64>);

// SAFETY: This is unsound on purpose: two tasks that call `add` race. Nothing else reads the
// number, and the module exists for this race.
unsafe impl Sync for Plain {}

impl Plain {
    // Not inlined, so that each call is one access.
    #[inline(never)]
    fn add(&self) {
        // SAFETY: The pointer is valid. The race is intended, see above.
        unsafe { *self.0.get() += 1 };
    }
}

struct Numbers {
    plain: Plain,
    atomic: Atomic<u64>,
}

#[vtable]
impl Files for Numbers {
    const FILES: &'static [File<Self>] = &[
        File::write_only(c"plain", |numbers, _| {
            (0..TIMES).for_each(|_| numbers.plain.add());
            Ok(())
        }),
        File::write_only(c"atomic", |numbers, _| {
            (0..TIMES).for_each(|_| numbers.atomic.add(1, Relaxed));
            Ok(())
        }),
    ];
}

struct RacyModule {
    _files: Dir<Numbers>,
}

impl kernel::Module for RacyModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let numbers = Numbers {
            plain: Plain(UnsafeCell::new(0)),
            atomic: Atomic::new(0),
        };
        Ok(Self {
            _files: Dir::new(c"racy", Arc::new(numbers, GFP_KERNEL)?)?,
        })
    }
}
