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
    debugfs::{
        Scope,
        ScopedDir, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::cell::UnsafeCell;

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

#[pin_data]
struct RacyModule {
    #[pin]
    _numbers: Scope<Numbers>,
}

impl kernel::InPlaceModule for RacyModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        let numbers = Numbers {
            plain: Plain(UnsafeCell::new(0)),
            atomic: Atomic::new(0),
        };
        try_pin_init!(Self {
            _numbers <- Scope::dir(numbers, c"racy", populate),
        })
    }
}

fn populate<'data>(numbers: &'data Numbers, dir: &ScopedDir<'data, '_>) {
    dir.write_only_callback_file(c"plain", numbers, &|numbers: &Numbers, _| {
        (0..TIMES).for_each(|_| numbers.plain.add());
        Ok(())
    });
    dir.write_only_callback_file(c"atomic", numbers, &|numbers: &Numbers, _| {
        (0..TIMES).for_each(|_| numbers.atomic.add(1, Relaxed));
        Ok(())
    });
}
