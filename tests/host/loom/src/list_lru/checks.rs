// SPDX-License-Identifier: GPL-2.0

//! The addition of an item while its lists are dropped, in every interleaving.
//!
//! Included next to each `closed` module: the right one, and the mutants.

use super::closed::Closed;

use loom::{
    sync::atomic::{
        AtomicUsize,
        Ordering::Relaxed, //
    },
    thread, //
};

use std::sync::Arc;

/// Lists. Their own locks do not order these accesses.
struct Lists {
    closed: Closed,
    count: AtomicUsize,
}

impl Lists {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            closed: Closed::new(),
            count: AtomicUsize::new(0),
        })
    }

    /// As `Item::add()`.
    fn add(&self) -> bool {
        if self.closed.is_set() {
            return false;
        }
        self.count.fetch_add(1, Relaxed);
        !(self.closed.is_set_after_add() && self.take())
    }

    /// Removes an item, if there is one.
    fn take(&self) -> bool {
        self.count
            .fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1))
            .is_ok()
    }

    /// As `ListLru::drop()`.
    fn close(&self) {
        self.closed.set();
        while self.count.load(Relaxed) != 0 && self.take() {}
    }
}

/// Either the adding task sees that the lists are closed, or the closing task sees the item.
fn nothing_is_left_on_closed_lists() {
    loom::model(|| {
        let lists = Lists::new();
        let theirs = lists.clone();
        let adds = thread::spawn(move || theirs.add());
        lists.close();
        adds.join().unwrap();
        assert_eq!(lists.count.load(Relaxed), 0, "an item is left");
    });
}

fn lists_are_open_until_they_are_closed() {
    loom::model(|| {
        let lists = Lists::new();
        assert!(lists.add(), "they are closed");
        lists.close();
        assert!(!lists.add(), "they are open");
        assert_eq!(lists.count.load(Relaxed), 0, "an item is left");
    });
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    (
        "nothing_is_left_on_closed_lists",
        nothing_is_left_on_closed_lists,
    ),
    (
        "lists_are_open_until_they_are_closed",
        lists_are_open_until_they_are_closed,
    ),
];
