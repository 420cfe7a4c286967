// SPDX-License-Identifier: GPL-2.0

//! The slots of the page stash, whose algorithm is in `rust/mm/page_stash/slots.rs`.

mod page;
pub(crate) mod patch;
pub(crate) mod right;
#[allow(unused_braces, unused_parens)]
pub(crate) mod wrong;

/// Names of mutants, and the checks that must fail.
pub(crate) const MUTANTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/slots_mutants.rs"));

/// The defects of the patch's cache: the checks that must fail, and their messages.
pub(crate) const DEFECTS: &[(&str, &str, &str)] = &[
    ("ABA", "no_page_has_two_owners", "a page has two owners"),
    (
        "a read of a freed page",
        "no_freed_page_is_touched",
        "touched after it was freed",
    ),
    (
        "a stranded page",
        "no_page_is_stranded",
        "a page is stranded",
    ),
];

/// Checks that the patch's cache passes.
pub(crate) const HOLDS: &[&str] = &["one_consumer_and_two_producers"];
