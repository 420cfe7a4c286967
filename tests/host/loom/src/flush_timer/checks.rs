// SPDX-License-Identifier: GPL-2.0

//! The guarantees of the timer of a flush queue, in every interleaving of a few calls.
//!
//! Included next to each `armed` module: the right one, and the mutants.

use super::{
    armed::Armed,
    counters::Counters, //
};

use loom::{
    sync::Mutex,
    thread, //
};

use std::sync::{
    atomic::{
        AtomicBool,
        Ordering::Relaxed, //
    },
    Arc, //
};

/// A queue with the ring of one CPU. The checker does not track the timer.
struct Queue {
    counters: Counters,
    armed: Armed,
    /// For each queued range, the number of flushes that had begun.
    ring: Mutex<Vec<u64>>,
    /// Whether the timer will expire.
    timer: AtomicBool,
}

impl Queue {
    /// Queues ranges, which arms the timer.
    fn new(ranges: usize) -> Arc<Self> {
        let this = Self {
            counters: Counters::new(),
            armed: Armed::new(),
            ring: Mutex::new(Vec::new()),
            timer: AtomicBool::new(false),
        };
        (0..ranges).for_each(|_| this.queue());
        Arc::new(this)
    }

    fn arm(&self) {
        assert!(!self.timer.swap(true, Relaxed), "armed twice");
    }

    /// As `Instance::queue()`.
    fn queue(&self) {
        self.ring.lock().unwrap().push(self.counters.started());
        self.armed.arm(|| self.arm());
    }

    /// As `Instance::flush()`.
    fn flush(&self) -> bool {
        self.counters.flush(|| ());
        let mut ring = self.ring.lock().unwrap();
        let finished = self.counters.finished();
        ring.retain(|&counter| counter >= finished);
        !ring.is_empty()
    }

    /// Runs the timer if it is armed, as `timeout()` in `instance.rs`.
    fn expire(&self) {
        if self.timer.swap(false, Relaxed) {
            self.armed.expire(|| self.flush(), || self.arm());
        }
    }

    /// Must be called when no other thread runs.
    fn check_at_rest(&self) {
        let is_empty = self.ring.lock().unwrap().is_empty();
        assert!(
            is_empty || self.timer.load(Relaxed),
            "a range waits without a timer"
        );
        // One more flush is enough for all ranges.
        self.expire();
        assert!(self.ring.lock().unwrap().is_empty(), "a range is left");
    }
}

/// Runs `threads` and the timer at the same time, for a queue with the given number of ranges.
fn race<const N: usize>(ranges: usize, threads: [fn(&Queue); N]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let queue = Queue::new(ranges);
        let threads = threads.map(|thread| {
            let queue = queue.clone();
            thread::spawn(move || thread(&queue))
        });
        queue.expire();
        for thread in threads {
            thread.join().unwrap();
        }
        queue.check_at_rest();
    });
}

/// The timer handles every range, or is armed again, however late the range is queued.
fn ranges_do_not_wait_without_a_timer() {
    race(1, [Queue::queue]);
    race(0, [Queue::queue]);
}

/// No flush counts for a range while a flush runs that began before the range was queued.
fn other_flushes_may_take_long() {
    race(1, [|queue| queue.counters.flush(|| queue.queue())]);
}

/// The timer must not be armed twice: it would expire too late.
fn the_timer_is_armed_once() {
    race(0, [Queue::queue, Queue::queue]);
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    (
        "ranges_do_not_wait_without_a_timer",
        ranges_do_not_wait_without_a_timer,
    ),
    ("other_flushes_may_take_long", other_flushes_may_take_long),
    ("the_timer_is_armed_once", the_timer_is_armed_once),
];
