// SPDX-License-Identifier: GPL-2.0

//! The algorithm of the page stash, whatever the atomics and the pages.
//!
//! The kernel and the interleaving checker of `tests/host/loom` run this file; the parent module
//! has the `atomic`s of either.
//!
//! A slot holds the address of a page, or is empty. A page is moved by one atomic operation on one
//! slot: who puts it exchanges null for its address, if null is there, and who takes it exchanges
//! what is there for null. Hence a page in a slot belongs to nobody, and one that was taken to
//! whoever took it, however many do either at once.
//!
//! - Nobody looks into a page that is in a slot, so it does no harm to have seen the address of one
//!   that others have taken and freed since.
//! - Nobody compares addresses, but with null, so it does no harm either if such a page is back in
//!   a slot by then.
//! - What is cached is what is in the slots. There is no count beside them that could be ahead of
//!   them, or behind.
//!
//! Nobody waits for others or tries again, so a call is over after a look at each slot; a drain also
//! has one at those of the floor for each page. It may miss a page or a room that others take or leave
//! meanwhile.

use core::{
    array,
    ptr::{
        self,
        NonNull, //
    },
    slice::Iter, //
};

use super::atomic::{
    Acquire,
    Atomic,
    Relaxed,
    Release, //
};

/// Slots for the pages of one CPU.
pub(super) struct Slots<P, const N: usize>([Atomic<*mut P>; N]);

impl<P, const N: usize> Slots<P, N> {
    /// Creates empty slots.
    pub(super) fn new() -> Self {
        Self(array::from_fn(|_| Atomic::new(ptr::null_mut())))
    }

    /// Puts a page into an empty one of the first `end` slots, or gives it back if there is none.
    ///
    /// What was done with the page before is seen by who gets it.
    #[inline]
    pub(super) fn put(&self, page: NonNull<P>, end: usize) -> Result<(), NonNull<P>> {
        self.rooms(end).put(page)
    }

    /// Goes through the first `end` slots to put pages into those that are empty.
    #[inline]
    pub(super) fn rooms(&self, end: usize) -> Rooms<'_, P> {
        Rooms(self.first(end).iter())
    }

    /// Takes a page out of one of the first `end` slots.
    #[inline]
    pub(super) fn get(&self, end: usize) -> Option<NonNull<P>> {
        self.first(end).iter().find_map(take)
    }

    /// Returns the first `end` slots, of which there are as many.
    #[inline]
    fn first(&self, end: usize) -> &[Atomic<*mut P>] {
        self.0.get(..end).unwrap_or_default()
    }

    /// Takes all pages but `floor`, each as it is asked for.
    ///
    /// They are those of the slots from `floor` on, which first fill the others. Those are left as
    /// they are, so however many drain at once, as many pages stay unless somebody gets them.
    pub(super) fn drain(&self, floor: usize) -> impl Iterator<Item = NonNull<P>> + '_ {
        let pages = self.0.iter().skip(floor).filter_map(take);

        pages.filter_map(move |page| self.put(page, floor).err())
    }

    /// Returns how many pages there are in the slots.
    ///
    /// Exact if no other call runs meanwhile.
    pub(super) fn count(&self) -> usize {
        let slots = self.0.iter();

        slots.filter(|slot| !slot.load(Relaxed).is_null()).count()
    }
}

/// Slots that were not looked at yet.
pub(super) struct Rooms<'a, P>(Iter<'a, Atomic<*mut P>>);

impl<P> Rooms<'_, P> {
    /// Puts a page into the next empty slot, or gives it back if there is none.
    #[inline]
    pub(super) fn put(&mut self, page: NonNull<P>) -> Result<(), NonNull<P>> {
        for slot in self.0.by_ref() {
            if slot.load(Relaxed).is_null()
                && slot
                    .cmpxchg(ptr::null_mut(), page.as_ptr(), Release)
                    .is_ok()
            {
                return Ok(());
            }
        }
        Err(page)
    }
}

/// Takes the page out of a slot.
#[inline]
fn take<P>(slot: &Atomic<*mut P>) -> Option<NonNull<P>> {
    // A look costs less than an exchange.
    if slot.load(Relaxed).is_null() {
        return None;
    }
    NonNull::new(slot.xchg(ptr::null_mut(), Acquire))
}
