// SPDX-License-Identifier: GPL-2.0

//! A reader of a pointer, whose value a writer frees as soon as the critical section has ended.

use std::{
    hint,
    sync::atomic::{
        AtomicBool,
        AtomicUsize,
        Ordering, //
    },
    thread, //
};

mod flavor {
    pub(crate) trait Flavor {}

    impl Flavor for () {}
}

mod guard {
    use super::*;

    /// A critical section. Its end returns only after the writer has freed the value.
    pub(crate) struct Guard<'a, F: flavor::Flavor> {
        pub(super) domain: &'a Domain,
        pub(super) _flavor: F,
    }

    impl<F: flavor::Flavor> Drop for Guard<'_, F> {
        fn drop(&mut self) {
            self.domain.readers.fetch_sub(1, Ordering::SeqCst);
            wait_until(|| self.domain.is_freed.load(Ordering::SeqCst));
        }
    }
}

mod pointer;

/// The state of a domain.
#[derive(Default)]
pub(crate) struct Domain {
    readers: AtomicUsize,
    is_freed: AtomicBool,
}

/// Polls a condition.
fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        hint::spin_loop();
        thread::yield_now();
    }
}
