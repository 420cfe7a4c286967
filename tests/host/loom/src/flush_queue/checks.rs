// SPDX-License-Identifier: GPL-2.0

//! The guarantees of the counters, in every interleaving of a few calls.
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

/// A page table with one entry, a device that has cached its translation, and flushes.
struct Device {
    counters: Counters,
    is_mapped: AtomicBool,
    /// Whether the device may use the cached translation of an unmapped range.
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

    /// Flushes the device, which then reads the page table again: no translation if it is unmapped.
    fn flush(&self) {
        self.counters.flush(|| {
            if !self.is_mapped.load(Relaxed) {
                self.is_stale.store(false, Relaxed);
            }
        });
    }

    /// Queues the range, and frees it if it is flushed.
    fn unmap_and_free(&self) {
        self.is_mapped.store(false, Relaxed);
        let counter = self.counters.started();

        if self.counters.finished() > counter {
            assert!(!self.is_stale.load(Relaxed), "freed, and not flushed");
        }
    }
}

/// Runs the flushes at the same time as a task that unmaps, queues and frees a range. Without a number of
/// `preemptions`, explores all interleavings.
fn explore(flushes: usize, preemptions: Option<usize>) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || {
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
        // One more flush at the end is enough for all ranges.
        let counter = device.counters.started();
        device.flush();
        assert!(
            device.counters.finished() > counter,
            "a flush was not counted"
        );
    });
}

fn what_is_freed_was_flushed() {
    explore(1, None);
}

/// A flush that began too early may be the first or the last to end.
fn flushes_may_end_in_any_order() {
    explore(2, Some(3));
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("what_is_freed_was_flushed", what_is_freed_was_flushed),
    ("flushes_may_end_in_any_order", flushes_may_end_in_any_order),
];
