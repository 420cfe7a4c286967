// SPDX-License-Identifier: GPL-2.0

//! The state of the timer of a flush queue, and its mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/iommu/iova/flush_queue/armed.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "!self.0.load(Relaxed) && !self.0.xchg(true, Relaxed)",
        &[
            (
                "the_timer_is_never_armed",
                "ranges_do_not_wait_without_a_timer",
                "false",
            ),
            (
                "arming_is_not_atomic",
                "the_timer_is_armed_once",
                "{ let is_off = !self.0.load(Relaxed); self.0.store(true, Relaxed); is_off }",
            ),
        ],
    ),
    (
        "self.0.store(false, Relaxed);
        if flush() {
            self.arm(arm);
        }",
        &[
            (
                "the_timer_forgets_what_it_has_left",
                "ranges_do_not_wait_without_a_timer",
                "{ self.0.store(false, Relaxed); flush(); drop(arm) }",
            ),
            (
                "the_timer_forgets_what_others_flush",
                "other_flushes_may_take_long",
                "{ self.0.store(false, Relaxed); flush(); drop(arm) }",
            ),
            (
                "the_timer_is_off_after_its_flush",
                "ranges_do_not_wait_without_a_timer",
                "{
                    let has_left = flush();
                    self.0.store(false, Relaxed);
                    if has_left {
                        self.arm(arm);
                    }
                }",
            ),
            (
                "the_timer_stays_on",
                "ranges_do_not_wait_without_a_timer",
                "if flush() { self.arm(arm) }",
            ),
        ],
    ),
];
