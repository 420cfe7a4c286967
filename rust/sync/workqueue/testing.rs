// SPDX-License-Identifier: GPL-2.0

//! Helpers for the tests of work queues.

use kernel::{
    impl_has_work,
    module::this_module,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use core::ops::Range;

use crate::{
    bindings,
    module::code, //
};

use super::{
    Flags,
    Workqueue, //
};

/// Counts its runs, each of which takes some milliseconds.
#[pin_data]
pub(super) struct Slow {
    runs: Atomic<u32>,
    #[pin]
    work: Work<Slow>,
}

impl_has_work! {
    impl HasWork<Self> for Slow { self.work }
}

impl WorkItem for Slow {
    type Pointer = Arc<Slow>;

    fn run(this: Arc<Slow>) {
        fsleep(Delta::from_millis(5));
        this.runs.add(1, Relaxed);
    }
}

impl Slow {
    pub(super) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                runs: Atomic::new(0),
                work <- new_work!("kscale_workqueue::Slow"),
            }),
            GFP_KERNEL,
        )
    }

    pub(super) fn runs(&self) -> u32 {
        self.runs.load(Relaxed)
    }
}

pub(super) fn queue() -> Result<Workqueue> {
    Workqueue::new(c"kscale_kunit", Flags::UNBOUND, 0)
}

/// Returns the module that contains the code of the items.
pub(super) fn own_module() -> *mut bindings::module {
    this_module::<crate::LocalModule>().as_ptr()
}

/// Returns the code of the items.
pub(super) fn own_code() -> Range<usize> {
    // SAFETY: The library is loaded.
    unsafe { code::code_of(own_module()) }
}
