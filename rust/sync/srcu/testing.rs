// SPDX-License-Identifier: GPL-2.0

//! Helpers for the tests of SRCU.

use kernel::{
    module::this_module,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

pub(super) use crate::testing::task::OtherTask;

use super::{
    new_pointer,
    pending_values,
    Domain,
    Flavor,
    Item,
    Pointer,
    Retired, //
};

/// A counter of dropped values.
pub(super) struct Drops(Arc<Atomic<u32>>);

impl Drops {
    pub(super) fn new() -> Result<Self> {
        Ok(Self(Arc::new(Atomic::new(0), GFP_KERNEL)?))
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Acquire)
    }

    /// Returns a value that counts its drop.
    pub(super) fn value(&self) -> Counted {
        Counted(self.0.clone())
    }

    /// Waits until `count` values were dropped.
    pub(super) fn wait_for(&self, count: u32) {
        while self.count() < count {
            nap();
        }
    }
}

/// A value that counts its drop.
pub(super) struct Counted(Arc<Atomic<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Release);
    }
}

/// Waits as the exit of the library, which contains the code of the tests.
pub(super) fn wait_for_callbacks() {
    while pending_values(this_module::<crate::LocalModule>().as_ptr()) > 0 {
        nap();
    }
}

/// Sleeps longer than most grace periods without readers take.
pub(super) fn nap() {
    fsleep(Delta::from_millis(2));
}

/// Replaces the value of `pointer`, and returns the old value retired.
pub(super) fn retire<T, F: Flavor>(pointer: &Pointer<T, F>, value: T) -> Result<Retired<T, F>> {
    let item = Item::new(value, GFP_KERNEL)?;
    Ok(pointer.lock().replace(item))
}

/// Returns a pointer to a value.
pub(super) fn pointer<T, F: Flavor>(
    domain: &Domain<F>,
    value: T,
) -> Result<Pin<KBox<Pointer<T, F>>>> {
    let item = Item::new(value, GFP_KERNEL)?;
    KBox::try_pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)
}

static LEAKS: Atomic<usize> = Atomic::new(0);

/// Counts a domain that is leaked, as it has a leaked guard.
pub(super) fn note_leak() {
    LEAKS.add(1, Relaxed);
}

/// Returns the number of leaked domains.
pub(super) fn leaks() -> usize {
    LEAKS.load(Relaxed)
}
