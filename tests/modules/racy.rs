// SPDX-License-Identifier: GPL-2.0

//! A data race in Rust, and the same without one, so that tests can see that KCSAN reports the first
//! and not the second.
//!
//! ```sh
//! cd /sys/kernel/debug/racy
//! echo >plain & echo >plain        # adds to a number in both tasks, which race
//! echo >atomic & echo >atomic      # which do not
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

/// How often a task adds at a time. KCSAN looks at one access in thousands.
const TIMES: usize = 100_000;

/// A number that everybody may add to, as if it belonged to one task.
struct Plain(UnsafeCell<u64>);

// SAFETY: It is not safe: two tasks that call `add` race. The number is read by nobody else, and the
// race is what the module is for.
unsafe impl Sync for Plain {}

impl Plain {
    // One call is one access, whatever is around it.
    #[inline(never)]
    fn add(&self) {
        // SAFETY: The pointer is valid. For the race, see above.
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
