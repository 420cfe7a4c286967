// SPDX-License-Identifier: GPL-2.0

//! Decides when closed slots may open again. Any answer is correct: it only affects the cost.
//!
//! A visit of all slots closes them. It takes a cache line from each CPU, and each CPU takes it
//! back when it opens its slot. A request without an open slot takes the line of the shared count.
//! After a visit, slots stay closed until these requests have cost some times as much as the visit.
//! So visits add a small part to the cost, however often requests are refused.

use super::hint::{
    Atomic,
    Relaxed, //
};

/// The requests on the shared count that each CPU makes, on average, before slots open.
const REQUESTS_PER_CPU: i64 = 4;

/// The number of requests before slots may open. Concurrent calls may count as one.
pub(super) struct Pacing {
    after_visit: i64,
    left: Atomic<i64>,
}

impl Pacing {
    pub(super) const fn new(cpus: i64) -> Self {
        Self {
            after_visit: cpus.saturating_mul(REQUESTS_PER_CPU),
            left: Atomic::new(0),
        }
    }

    /// Called before a visit of all slots.
    pub(super) fn on_visit(&self) {
        self.left.store(self.after_visit, Relaxed);
    }

    /// Called in a request on the shared count, which succeeds. Returns whether slots may open.
    pub(super) fn may_open(&self) -> bool {
        let left = self.left.load(Relaxed);

        if left > 0 {
            self.left.store(left - 1, Relaxed);
        }
        left <= 0
    }
}
