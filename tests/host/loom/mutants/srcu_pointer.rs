// SPDX-License-Identifier: GPL-2.0

//! The address of a node, and its mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/sync/srcu/pointer/current.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "self.0.load(Acquire)",
        &[(
            "readers_follow_it_unordered",
            "readers_see_what_was_written",
            "self.0.load(super::atomic::Relaxed)",
        )],
    ),
    (
        "self.0.xchg(node.as_ptr(), Full)",
        &[
            (
                "nodes_are_found_unordered",
                "readers_see_what_was_written",
                "self.0.xchg(node.as_ptr(), Acquire)",
            ),
            (
                "nodes_are_taken_away_unordered",
                "each_node_is_taken_away_once",
                "self.0.xchg(node.as_ptr(), super::atomic::Release)",
            ),
            (
                "replacing_is_not_atomic",
                "each_node_is_taken_away_once",
                "{
                    let old = self.0.load(Acquire);
                    self.0.store(node.as_ptr(), super::atomic::Release);
                    old
                }",
            ),
        ],
    ),
];
