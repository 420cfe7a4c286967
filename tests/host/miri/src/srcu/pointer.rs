// SPDX-License-Identifier: GPL-2.0

//! The pointer and its guard.

use std::{
    ptr::NonNull,
    sync::atomic::Ordering,
    thread, //
};

use super::{
    guard::Guard,
    wait_until,
    Domain, //
};
use crate::atomic;

#[path = "../../../../../rust/sync/srcu/pointer/current.rs"]
pub(super) mod current;
#[path = "../../../../../rust/sync/srcu/pointer/read.rs"]
mod read;

use current::Current;

/// Reads a value, and drops the guard while a writer frees the value.
#[test]
fn a_value_is_freed_while_its_guard_is_dropped() {
    let domain = &Domain::default();
    let current = &Current::new(NonNull::from(Box::leak(Box::new(1))));

    thread::scope(|scope| {
        domain.readers.fetch_add(1, Ordering::SeqCst);
        let section = Guard {
            domain,
            _flavor: (),
        };
        // SAFETY: The writer frees the value after the critical section has ended.
        let guard = unsafe { read::PointerGuard::new(current.load(), section) };
        assert_eq!(*guard, 1);

        scope.spawn(|| {
            let old = current.replace(NonNull::from(Box::leak(Box::new(2))));
            wait_until(|| domain.readers.load(Ordering::SeqCst) == 0);
            // SAFETY: It was leaked above, and no reader is left.
            drop(unsafe { Box::from_raw(old.as_ptr()) });
            domain.is_freed.store(true, Ordering::SeqCst);
        });
        drop(guard);
    });
    // SAFETY: It was leaked above, and the writer has ended.
    drop(unsafe { Box::from_raw(current.load().as_ptr()) });
}
