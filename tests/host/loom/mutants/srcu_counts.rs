// SPDX-License-Identifier: GPL-2.0

//! The counts of values that wait for their destructor, and their mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/sync/srcu/pending/counts.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "self.begun.fetch_add(1, Relaxed);",
        &[("values_do_not_begin", "all_that_ends_is_counted", "()")],
    ),
    (
        "self.ended.fetch_add(1, Release);",
        &[
            (
                "values_end_unordered",
                "code_stays_while_it_runs",
                "{ self.ended.fetch_add(1, Relaxed); }",
            ),
            (
                "values_end_before_what_they_began",
                "what_a_destructor_begins_is_waited_for",
                "{ self.ended.fetch_add(1, Relaxed); }",
            ),
        ],
    ),
    (
        "it.ended.load(Acquire)",
        &[
            (
                "the_end_is_seen_unordered",
                "code_stays_while_it_runs",
                "it.ended.load(Relaxed)",
            ),
            (
                "the_end_is_seen_before_the_beginning",
                "what_a_destructor_begins_is_waited_for",
                "it.ended.load(Relaxed)",
            ),
        ],
    ),
    (
        "counts().fold(0_u64, |sum, it| sum.wrapping_add(it.begun.load(Relaxed)))",
        &[(
            "the_first_destructor_is_all_there_is",
            "all_that_ends_is_counted",
            "counts().next().unwrap().begun.load(Relaxed)",
        )],
    ),
    (
        "begun.wrapping_sub(ended)",
        &[(
            "the_end_is_looked_at_last",
            "what_a_destructor_begins_is_waited_for",
            "{
                // As if the sums were made the other way round.
                let _ = (begun, ended);
                let begun = counts().fold(0_u64, |sum, it| sum + it.begun.load(Relaxed));
                let ended = counts().fold(0_u64, |sum, it| sum + it.ended.load(Acquire));
                begun.wrapping_sub(ended)
            }",
        )],
    ),
];
