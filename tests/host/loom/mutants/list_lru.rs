// SPDX-License-Identifier: GPL-2.0

//! The flag that closes lists to new items, and its mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/mm/list_lru/closed.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "smp_mb(Full);
        self.0.load(Relaxed)",
        &[
            (
                "who_adds_does_not_look_again",
                "nothing_is_left_on_closed_lists",
                "false",
            ),
            (
                "who_adds_looks_unordered",
                "nothing_is_left_on_closed_lists",
                "self.0.load(Relaxed)",
            ),
        ],
    ),
    (
        "self.0.store(true, Relaxed);
        // Pairs with the one in `is_set_after_add()`.
        smp_mb(Full);",
        &[
            (
                "lists_stay_open",
                "lists_are_open_until_they_are_closed",
                "()",
            ),
            (
                "lists_are_closed_unordered",
                "nothing_is_left_on_closed_lists",
                "self.0.store(true, Relaxed)",
            ),
            (
                "lists_are_closed_after_a_look",
                "nothing_is_left_on_closed_lists",
                "{ smp_mb(Full); self.0.store(true, Relaxed) }",
            ),
        ],
    ),
];
