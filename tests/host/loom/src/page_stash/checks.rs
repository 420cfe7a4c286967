// SPDX-License-Identifier: GPL-2.0

//! What the slots of the page stash promise, in every interleaving of a few calls.
//!
//! Included next to each `slots` module: the right one, the mutants, and that of the patch.

use super::{
    page::Page,
    slots::Slots, //
};

use loom::thread;

use std::{
    ptr::NonNull,
    sync::Arc, //
};

/// As many as a defect of the patch needs.
const SLOTS: usize = 3;

/// Slots, and the pages that are in them, belong to somebody or are free.
struct Checked {
    slots: Slots<Page, SLOTS>,
    pages: [Arc<Page>; SLOTS + 1],
}

impl Checked {
    /// Puts the first `cached` pages into the slots. All others belong to the caller.
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

    /// Gives a page of the caller's to the slots, and tells whether they took it.
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

    /// Frees all pages but `floor`, as a shrinker does, and returns how many.
    fn shrink(&self, floor: usize) -> usize {
        let pages = self.slots.drain(floor).map(|page| self.taken(page));
        pages.map(Page::free).count()
    }

    /// Returns how many pages belong to nobody.
    fn cached(&self) -> usize {
        self.pages.iter().filter(|page| !page.is_out()).count()
    }

    /// To be called when no other thread runs: every page that belongs to nobody is in a slot.
    fn check_at_rest(&self) {
        let (cached, count) = (self.cached(), self.slots.count());

        assert!(cached <= SLOTS, "more pages than slots");
        assert_eq!(self.shrink(0), cached, "a page is stranded");
        assert_eq!(count, cached, "the count is not exact");
        assert_eq!(self.slots.count(), 0, "a page is left");
    }
}

/// What several threads do at the same time.
struct Race<const N: usize> {
    /// Pages that are in the slots before.
    cached: usize,
    threads: [fn(&Checked); N],
    /// What must be so after them.
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

    /// Tries every interleaving.
    fn explore(self) {
        loom::model::Builder::new().check(move || self.run());
    }

    /// Tries every interleaving with few preemptions, as many as most faults need.
    fn explore_some(self) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || self.run());
    }
}

/// Returns a race after which every page must be where it belongs.
fn race<const N: usize>(cached: usize, threads: [fn(&Checked); N]) -> Race<N> {
    Race {
        cached,
        threads,
        after: Checked::check_at_rest,
    }
}

/// Returns a race that is about what happens meanwhile.
fn race_only<const N: usize>(cached: usize, threads: [fn(&Checked); N]) -> Race<N> {
    Race {
        cached,
        threads,
        after: |_| (),
    }
}

/// Takes two pages and puts the first of them back.
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

/// Who has seen a page in a slot may find it there again, though it was elsewhere meanwhile.
fn no_page_has_two_owners() {
    race_only(SLOTS, [get_two, get_two_put_one]).explore_some();
    race_only(1, [get, get]).explore();
}

/// Several may free pages at once, while others look for one.
fn no_freed_page_is_touched() {
    fn free_one(checked: &Checked) {
        checked.get().map(Page::free);
    }
    race_only(2, [free_one, free_one]).explore();
    race_only(2, [shrink::<0>, shrink::<0>]).explore();
    race_only(2, [shrink::<0>, get_and_put]).explore();
}

/// What was put is found at rest, and what was not found stays with who has it.
fn no_page_is_stranded() {
    race(0, [put::<0>, get]).explore();
    race(SLOTS - 1, [put::<{ SLOTS - 1 }>, put::<SLOTS>]).explore();
    race(SLOTS, [get, get_and_put]).explore();
}

/// Who gets a page sees what was written into it, and nobody else writes.
fn pages_carry_what_was_done_with_them() {
    fn write_and_put(checked: &Checked) {
        checked.page(0).write(7);
        checked.put(checked.page(0));
    }
    race(0, [write_and_put, get_and_put]).explore();
    race(1, [get_and_put, get_and_put]).explore();
}

/// What a shrinker must leave is left, however many shrink at once.
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

/// Somebody puts, somebody gets, and somebody shrinks.
fn nothing_is_lost_between_puts_gets_and_drains() {
    race(2, [put::<2>, get_and_put, shrink::<1>]).explore_some();
    race(0, [put::<2>, get, get]).explore_some();
    race(2, [shrink::<1>, shrink::<2>, get]).explore_some();
}

/// Every check and its name.
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
