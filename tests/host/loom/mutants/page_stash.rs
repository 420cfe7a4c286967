// SPDX-License-Identifier: GPL-2.0

//! The slots of the page stash, and their mutants.

use super::Mutants;

pub(crate) const SOURCE: &str = "../../../rust/mm/page_stash/slots.rs";

pub(crate) const MUTANTS: Mutants = &[
    (
        "slot.cmpxchg(ptr::null_mut(), page.as_ptr(), Release).is_ok()",
        &[
            (
                "pages_are_put_unordered",
                "pages_carry_what_was_done_with_them",
                "slot.cmpxchg(ptr::null_mut(), page.as_ptr(), Relaxed).is_ok()",
            ),
            (
                "put_is_not_atomic",
                "no_page_is_stranded",
                "{ slot.store(page.as_ptr(), Release); true }",
            ),
            (
                "put_does_not_say_that_it_failed",
                "no_page_is_stranded",
                "{ let _ = slot.cmpxchg(ptr::null_mut(), page.as_ptr(), Release); true }",
            ),
        ],
    ),
    (
        "NonNull::new(slot.xchg(ptr::null_mut(), Acquire))",
        &[
            (
                "pages_are_taken_unordered",
                "pages_carry_what_was_done_with_them",
                "NonNull::new(slot.xchg(ptr::null_mut(), Relaxed))",
            ),
            (
                "get_is_not_atomic",
                "no_page_has_two_owners",
                "{
                    let page = NonNull::new(slot.load(Acquire));
                    slot.store(ptr::null_mut(), Relaxed);
                    page
                }",
            ),
            (
                "a_freed_page_is_drained_again",
                "no_freed_page_is_touched",
                "{
                    let page = NonNull::new(slot.load(Acquire));
                    slot.store(ptr::null_mut(), Relaxed);
                    page
                }",
            ),
        ],
    ),
    (
        "self.0.iter().skip(floor).filter_map(take)",
        &[(
            "the_floor_is_drained",
            "drains_leave_the_floor",
            "self.0.iter().skip(0 * floor).filter_map(take)",
        )],
    ),
    (
        "self.put(page, floor).err()",
        &[
            (
                "what_is_drained_is_lost",
                "no_page_is_stranded",
                "{ let _ = self.put(page, floor); None }",
            ),
            (
                "what_fills_the_floor_is_freed",
                "nothing_is_lost_between_puts_gets_and_drains",
                "{ let _ = self.put(page, floor); Some(page) }",
            ),
        ],
    ),
];
