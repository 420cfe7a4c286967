// SPDX-License-Identifier: GPL-2.0

//! The credit limiters, and their mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/percpu/limiter/pool.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "self.state().free() >= 0",
        &[(
            "parked_credits_are_taken_above_the_limit",
            "lower_limit_holds_at_once",
            "true",
        )],
    ),
    (
        "slot.cmpxchg(parked, parked - count, Acquire).is_ok()",
        &[
            (
                "take_is_not_atomic",
                "saturated_is_exactly_the_limit",
                "{ slot.store(parked - count, Relaxed); true }",
            ),
            (
                "parked_credits_are_taken_unordered",
                "credits_carry_what_was_done_with_them",
                "slot.cmpxchg(parked, parked - count, Relaxed).is_ok()",
            ),
        ],
    ),
    (
        "slot.cmpxchg(seen, seen + count, Release)",
        &[(
            "credits_are_parked_unordered",
            "credits_carry_what_was_done_with_them",
            "slot.cmpxchg(seen, seen + count, Relaxed)",
        )],
    ),
    (
        "slot.cmpxchg(seen, seen + opened + credits, Release)",
        &[
            (
                "refill_is_parked_unordered",
                "credits_carry_what_was_done_with_them",
                "slot.cmpxchg(seen, seen + opened + credits, Relaxed)",
            ),
            (
                "refill_is_parked_twice",
                "saturated_is_exactly_the_limit",
                "{ self.put(credits, 0); slot.cmpxchg(seen, seen + opened + credits, Release) }",
            ),
        ],
    ),
    (
        "slot.xchg(0, Acquire)",
        &[
            (
                "slots_are_closed_unordered",
                "credits_carry_what_was_done_with_them",
                "slot.xchg(0, Relaxed)",
            ),
            (
                "closed_slots_keep_their_credits",
                "saturated_is_exactly_the_limit",
                "slot.load(Acquire)",
            ),
            (
                "closing_is_not_atomic",
                "saturated_is_exactly_the_limit",
                "{ let seen = slot.load(Acquire); slot.store(0, Relaxed); seen }",
            ),
        ],
    ),
    (
        "self.state.fetch_add(State::new(credits, -closed).0, Release)",
        &[(
            "credits_are_put_unordered",
            "credits_carry_what_was_done_with_them",
            "self.state.fetch_add(State::new(credits, -closed).0, Relaxed)",
        )],
    ),
    (
        "self.state.cmpxchg(old.0, new.0, Full)",
        &[
            (
                "state_is_replaced_unordered",
                "credits_carry_what_was_done_with_them",
                "self.state.cmpxchg(old.0, new.0, Relaxed)",
            ),
            (
                "state_is_replaced_without_its_acquire_half",
                "credits_carry_what_was_done_with_them",
                "self.state.cmpxchg(old.0, new.0, Release)",
            ),
            (
                "state_is_replaced_without_its_release_half",
                "refused_credits_carry_what_was_done_with_them",
                "self.state.cmpxchg(old.0, new.0, Acquire)",
            ),
            (
                "state_is_not_replaced_at_once",
                "saturated_is_exactly_the_limit",
                "{ self.state.store(new.0, Release); Ok::<i64, i64>(0) }",
            ),
        ],
    ),
    (
        "open + opens",
        &[(
            "opened_slots_are_not_counted",
            "credits_are_neither_lost_nor_made",
            "open",
        )],
    ),
    (
        "state.open() - drained.slots",
        &[(
            "closed_slots_stay_counted",
            "saturated_is_exactly_the_limit",
            "state.open()",
        )],
    ),
    (
        "open != 0 && may_close",
        &[(
            "refused_without_a_look_at_the_slots",
            "saturated_is_exactly_the_limit",
            "false",
        )],
    ),
    (
        "drained.slots == 0 || self.replace(state, State::new(free, open))",
        &[(
            "refusal_keeps_what_it_collected",
            "saturated_is_exactly_the_limit",
            "true",
        )],
    ),
    (
        "self.put(credits, opened)",
        &[
            (
                "credits_that_cannot_be_parked_are_lost",
                "credits_are_neither_lost_nor_made",
                "self.put(0, opened)",
            ),
            (
                "slot_that_was_not_opened_stays_counted",
                "credits_are_neither_lost_nor_made",
                "self.put(credits, 0)",
            ),
        ],
    ),
    (
        "seen > 0 && seen - 1 <= room - count",
        &[(
            "credits_are_parked_in_a_closed_slot",
            "credits_are_neither_lost_nor_made",
            "seen - 1 <= room - count",
        )],
    ),
    (
        "slot.cmpxchg(seen, left, Acquire).is_ok()",
        &[
            (
                "spilled_credits_are_put_twice",
                "credits_are_neither_lost_nor_made",
                "true",
            ),
            (
                "credits_are_spilled_unordered",
                "spilled_credits_carry_what_was_done_with_them",
                "slot.cmpxchg(seen, left, Relaxed).is_ok()",
            ),
        ],
    ),
    (
        "fall > 0 && !self.charge(fall)",
        &[(
            "limit_falls_without_its_credits",
            "lower_limit_holds_at_once",
            "false",
        )],
    ),
    (
        "self.limit.cmpxchg(old, limit, Relaxed)",
        &[
            (
                "credits_come_before_the_limit",
                "limits_set_at_once_do_not_add_up",
                "{
                    self.put((limit - old).max(0), 0);
                    let done = self.limit.cmpxchg(old, limit, Relaxed);
                    self.put(-(limit - old).max(0), 0);
                    done
                }",
            ),
            (
                "limit_is_not_replaced_at_once",
                "limits_set_at_once_do_not_add_up",
                "{ self.limit.store(limit, Relaxed); Ok::<i64, i64>(0) }",
            ),
        ],
    ),
    (
        "self.put(fall, 0)",
        &[(
            "credits_of_a_fall_are_lost",
            "limits_set_at_once_do_not_add_up",
            "()",
        )],
    ),
    (
        "self.replace(state, State::new(free, state.open()))",
        &[("charge_is_not_counted", "charged_credits_count", "true")],
    ),
];
