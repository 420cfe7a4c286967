// SPDX-License-Identifier: GPL-2.0

//! The list of bios that wait for the worker of a `SortedSubmitQueue`, and its mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/block/dm/submit/llist.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "self.0.cmpxchg(first, node.as_ptr(), Release)",
        &[
            (
                "bios_are_added_unordered",
                "bios_carry_what_was_done_with_them",
                "self.0.cmpxchg(first, node.as_ptr(), Relaxed)",
            ),
            (
                "bios_are_not_added_at_once",
                "all_bios_are_sent",
                "{ self.0.store(node.as_ptr(), Release); Ok::<*mut N, *mut N>(first) }",
            ),
        ],
    ),
    (
        "return first.is_null()",
        &[
            (
                "all_have_the_worker_run",
                "no_queue_is_touched_that_has_gone",
                "return true",
            ),
            (
                "the_first_has_no_worker_run",
                "all_bios_are_sent",
                "return !first.is_null()",
            ),
        ],
    ),
    (
        "first = now",
        &[
            (
                "empty_is_what_was_loaded_first",
                "all_bios_are_sent",
                "{
                    let was_empty = first.is_null();
                    let _ = (now, self.add(node, link));
                    return was_empty;
                }",
            ),
            (
                "links_are_not_renewed",
                "all_bios_are_sent",
                "{
                    first = now;
                    let _ = self.0.cmpxchg(first, node.as_ptr(), Release);
                    return first.is_null();
                }",
            ),
        ],
    ),
    (
        "self.0.xchg(ptr::null_mut(), Acquire)",
        &[
            (
                "bios_are_taken_unordered",
                "bios_carry_what_was_done_with_them",
                "self.0.xchg(ptr::null_mut(), Relaxed)",
            ),
            (
                "bios_are_not_taken_at_once",
                "all_bios_are_sent",
                "{
                    let first = self.0.load(Acquire);
                    self.0.store(ptr::null_mut(), Relaxed);
                    first
                }",
            ),
            (
                "bios_that_were_taken_stay",
                "no_bio_is_sent_twice",
                "self.0.load(Acquire)",
            ),
        ],
    ),
];
