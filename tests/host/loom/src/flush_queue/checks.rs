// SPDX-License-Identifier: GPL-2.0

//! What the counters promise, in every interleaving of a few calls.
//!
//! Included next to each `counters` module: the right one, and the mutants.

use super::counters::Counters;

use loom::{
    sync::atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    },
    thread, //
};

use std::sync::Arc;

/// A page table with one entry, a device that has looked it up, and flushes.
struct Device {
    counters: Counters,
    is_mapped: AtomicBool,
    /// Whether the device may use what it has looked up, of a range that is not mapped any more.
    is_stale: AtomicBool,
}

impl Device {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            counters: Counters::new(),
            is_mapped: AtomicBool::new(true),
            is_stale: AtomicBool::new(true),
        })
    }

    /// Has the device forget, and look again: it finds nothing if it sees that it was unmapped.
    fn flush(&self) {
        self.counters.flush(|| {
            if !self.is_mapped.load(Relaxed) {
                self.is_stale.store(false, Relaxed);
            }
        });
    }

    /// Queues the range, and frees it if it may.
    fn unmap_and_free(&self) {
        self.is_mapped.store(false, Relaxed);
        let counter = self.counters.started();

        if self.counters.finished() > counter {
            assert!(!self.is_stale.load(Relaxed), "freed, and not flushed");
        }
    }
}

/// Runs as many flushes at a time, while a range is unmapped, queued and freed.
fn explore(flushes: usize) {
    loom::model::Builder::new().check(move || {
        let device = Device::new();
        let flushes: Vec<_> = (0..flushes)
            .map(|_| {
                let device = device.clone();
                thread::spawn(move || device.flush())
            })
            .collect();
        device.unmap_and_free();
        for flush in flushes {
            flush.join().unwrap();
        }
        // After all, one more is for everything.
        let counter = device.counters.started();
        device.flush();
        assert!(
            device.counters.finished() > counter,
            "a flush was not counted"
        );
    });
}

fn what_is_freed_was_flushed() {
    explore(1);
}

/// A flush that began too early may end last, or first.
fn flushes_may_end_in_any_order() {
    explore(2);
}

/// Every check and its name.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("what_is_freed_was_flushed", what_is_freed_was_flushed),
    ("flushes_may_end_in_any_order", flushes_may_end_in_any_order),
];
