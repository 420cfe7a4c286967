// SPDX-License-Identifier: GPL-2.0

//! The guarantees of the slots of the page stash, in every interleaving of a few calls.
//!
//! Included next to each `slots` module: the right one, the mutants, and the one of the patch.

use super::{
    page::Page,
    slots::Slots, //
};

use loom::thread;

use std::{
    ptr::NonNull,
    sync::Arc, //
};

/// The number of pages that a defect of the patch needs.
const SLOTS: usize = 3;

/// Slots and pages. Each page is in a slot, has an owner, or is free.
struct Checked {
    slots: Slots<Page, SLOTS>,
    pages: [Arc<Page>; SLOTS + 1],
}

impl Checked {
    /// Puts the first `cached` pages into the slots. The caller owns the others.
    fn new(cached: usize) -> Arc<Self> {
        let this = Self {
            slots: Slots::new(),
            pages: [const { () }; SLOTS + 1].map(|()| Arc::new(Page::new())),
        };
        for page in 0..cached {
            assert!(this.put(this.page(page)), "no room in empty slots");
        }
        Arc::new(this)
    }

    fn page(&self, number: usize) -> &Page {
        &self.pages[number]
    }

    /// Puts a page of the caller into the slots, and returns whether there was room.
    fn put(&self, page: &Page) -> bool {
        page.is_given();
        let refused = self.slots.put(NonNull::from(page), SLOTS).err();
        if let Some(refused) = refused {
            assert_eq!(refused, NonNull::from(page), "another page came back");
            self.taken(refused);
        }
        refused.is_none()
    }

    fn get(&self) -> Option<&Page> {
        self.slots.get(SLOTS).map(|page| self.taken(page))
    }

    fn taken(&self, page: NonNull<Page>) -> &Page {
        // SAFETY: All pages live as long as `self`.
        let page = unsafe { &*page.as_ptr() };
        page.is_taken();
        page
    }

    /// Frees all pages except `floor`, as a shrinker does, and returns the number of freed pages.
    fn shrink(&self, floor: usize) -> usize {
        let pages = self.slots.drain(floor).map(|page| self.taken(page));
        pages.map(Page::free).count()
    }

    /// Returns the number of pages without an owner.
    fn cached(&self) -> usize {
        self.pages.iter().filter(|page| !page.is_out()).count()
    }

    /// Must be called when no other thread runs. Checks that each page without an owner is in a
    /// slot.
    fn check_at_rest(&self) {
        let (cached, count) = (self.cached(), self.slots.count());

        assert!(cached <= SLOTS, "more pages than slots");
        assert_eq!(self.shrink(0), cached, "a page is stranded");
        assert_eq!(count, cached, "the count is not exact");
        assert_eq!(self.slots.count(), 0, "a page is left");
    }
}

/// The threads of a check.
struct Race<const N: usize> {
    /// The number of pages in the slots at the start.
    cached: usize,
    threads: [fn(&Checked); N],
    /// The condition at the end.
    after: fn(&Checked),
}

impl<const N: usize> Race<N> {
    fn run(&self) {
        let checked = Checked::new(self.cached);
        let (mine, others) = self.threads.split_first().unwrap();
        let start = |other: fn(&Checked)| {
            let checked = checked.clone();
            thread::spawn(move || other(&checked))
        };
        let others: Vec<_> = others.iter().map(|&other| start(other)).collect();
        mine(&checked);
        for other in others {
            other.join().unwrap();
        }
        (self.after)(&checked);
    }

    /// Explores every interleaving.
    fn explore(self) {
        loom::model::Builder::new().check(move || self.run());
    }

    /// Explores every interleaving with few preemptions, which suffice for most defects.
    fn explore_some(self) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || self.run());
    }
}

/// Returns a race after which every page must be in a slot, owned or free.
fn race<const N: usize>(cached: usize, threads: [fn(&Checked); N]) -> Race<N> {
    Race {
        cached,
        threads,
        after: Checked::check_at_rest,
    }
}

/// Returns a race whose threads themselves check the condition.
fn race_only<const N: usize>(cached: usize, threads: [fn(&Checked); N]) -> Race<N> {
    Race {
        cached,
        threads,
        after: |_| (),
    }
}

/// Takes two pages, and puts the first one back.
fn get_two_put_one(checked: &Checked) {
    let first = checked.get();
    checked.get();
    if let Some(first) = first {
        checked.put(first);
    }
}

fn get(checked: &Checked) {
    checked.get();
}

fn get_two(checked: &Checked) {
    checked.get();
    checked.get();
}

fn get_and_put(checked: &Checked) {
    if let Some(page) = checked.get() {
        checked.put(page);
    }
}

fn put<const PAGE: usize>(checked: &Checked) {
    checked.put(checked.page(PAGE));
}

fn shrink<const FLOOR: usize>(checked: &Checked) {
    checked.shrink(FLOOR);
}

/// ABA: a task may find a page in the same slot again, although the page was elsewhere meanwhile.
fn no_page_has_two_owners() {
    race_only(SLOTS, [get_two, get_two_put_one]).explore_some();
    race_only(1, [get, get]).explore();
}

/// Several tasks free pages while others take one.
fn no_freed_page_is_touched() {
    fn free_one(checked: &Checked) {
        checked.get().map(Page::free);
    }
    race_only(2, [free_one, free_one]).explore();
    race_only(2, [shrink::<0>, shrink::<0>]).explore();
    race_only(2, [shrink::<0>, get_and_put]).explore();
}

/// A later `get()` finds a page that was put. A page that was refused stays with its owner.
fn no_page_is_stranded() {
    race(0, [put::<0>, get]).explore();
    race(SLOTS - 1, [put::<{ SLOTS - 1 }>, put::<SLOTS>]).explore();
    race(SLOTS, [get, get_and_put]).explore();
}

/// The new owner of a page sees all earlier writes to it, and has exclusive access.
fn pages_carry_what_was_done_with_them() {
    fn write_and_put(checked: &Checked) {
        checked.page(0).write(7);
        checked.put(checked.page(0));
    }
    race(0, [write_and_put, get_and_put]).explore();
    race(1, [get_and_put, get_and_put]).explore();
}

/// Concurrent shrinkers leave the minimum number of pages.
fn drains_leave_the_floor() {
    fn find_the_floor(checked: &Checked) {
        checked.shrink(1);
        assert!(checked.get().is_some(), "the floor was drained");
    }
    race(SLOTS, [shrink::<1>, find_the_floor]).explore();
    race(SLOTS, [shrink::<2>, get_and_put]).explore();
}

fn one_consumer_and_two_producers() {
    race(1, [get, put::<1>, put::<2>]).explore_some();
}

/// One task puts, one gets, and one shrinks.
fn nothing_is_lost_between_puts_gets_and_drains() {
    race(2, [put::<2>, get_and_put, shrink::<1>]).explore_some();
    race(0, [put::<2>, get, get]).explore_some();
    race(2, [shrink::<1>, shrink::<2>, get]).explore_some();
}

/// All checks, with their names.
pub(crate) const CHECKS: &[(&str, fn())] = &[
    ("no_page_has_two_owners", no_page_has_two_owners),
    ("no_freed_page_is_touched", no_freed_page_is_touched),
    ("no_page_is_stranded", no_page_is_stranded),
    (
        "pages_carry_what_was_done_with_them",
        pages_carry_what_was_done_with_them,
    ),
    ("drains_leave_the_floor", drains_leave_the_floor),
    (
        "one_consumer_and_two_producers",
        one_consumer_and_two_producers,
    ),
    (
        "nothing_is_lost_between_puts_gets_and_drains",
        nothing_is_lost_between_puts_gets_and_drains,
    ),
];
