// SPDX-License-Identifier: GPL-2.0

//! The counters of flush queues, and their mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/iommu/iova/flush_queue/counters.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "self.started.fetch_add(1, Relaxed);
        // Pairs with the one in `started()`.
        smp_mb(Full);

        flush()",
        &[
            (
                "flushes_begin_without_a_barrier",
                "what_is_freed_was_flushed",
                "{ self.started.fetch_add(1, Relaxed); flush() }",
            ),
            (
                "flushes_are_counted_when_they_end",
                "what_is_freed_was_flushed",
                "{ flush(); self.started.fetch_add(1, Relaxed); smp_mb(Full) }",
            ),
        ],
    ),
    (
        "self.finished.fetch_add(1, Release)",
        &[
            (
                "flushes_end_unordered",
                "what_is_freed_was_flushed",
                "self.finished.fetch_add(1, Relaxed)",
            ),
            ("flushes_never_end", "what_is_freed_was_flushed", "0"),
        ],
    ),
    (
        "smp_mb(Full);
        self.started.load(Relaxed)",
        &[
            (
                "ranges_are_queued_without_a_barrier",
                "what_is_freed_was_flushed",
                "self.started.load(Relaxed)",
            ),
            (
                "those_that_end_are_taken_for_those_that_begin",
                "flushes_may_end_in_any_order",
                "{ smp_mb(Full); self.finished.load(Relaxed) }",
            ),
        ],
    ),
    (
        "self.finished.load(Acquire)",
        &[
            (
                "ends_are_seen_unordered",
                "what_is_freed_was_flushed",
                "self.finished.load(Relaxed)",
            ),
            (
                "flushes_that_begin_are_taken_for_ended",
                "what_is_freed_was_flushed",
                "self.started.load(Acquire)",
            ),
        ],
    ),
];
