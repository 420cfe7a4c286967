// SPDX-License-Identifier: GPL-2.0

//! The algorithm of the page stash, independent of the types of atomics and pages.
//!
//! The kernel and the interleaving checker of `tests/host/loom` both compile this file. The parent
//! module provides the `atomic` module in both cases.
//!
//! A slot holds the address of a page, or null if it is empty. One atomic operation on one slot
//! moves a page: `put` replaces null by the address with a compare-and-exchange, and `get`
//! exchanges the address for null. A page in a slot therefore has no other owner, and a page that
//! was taken has one owner, for any number of concurrent callers.
//!
//! - No call accesses a page that is in a slot. A stale address of a page that another task has
//!   taken and freed is harmless.
//! - Calls compare addresses with null only. The ABA problem does not arise if such a page is in a
//!   slot again.
//! - The slots are the only record of the cached pages. There is no separate counter that could
//!   disagree with them.
//!
//! No call waits or retries, so each call ends after it has read each slot once. A drain also reads
//! the slots of the floor once for each page. A call may miss a page or an empty slot that another
//! task takes or puts concurrently.

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

    /// Puts a page into an empty slot among the first `end` slots, or returns the page if all are
    /// full.
    ///
    /// Earlier accesses to the page are visible to the task that gets the page.
    #[inline]
    pub(super) fn put(&self, page: NonNull<P>, end: usize) -> Result<(), NonNull<P>> {
        self.empty_slots(end).put(page)
    }

    /// Returns an iterator over the first `end` slots that puts pages into empty slots.
    #[inline]
    pub(super) fn empty_slots(&self, end: usize) -> EmptySlots<'_, P> {
        EmptySlots(self.first(end).iter())
    }

    /// Takes a page out of one of the first `end` slots.
    #[inline]
    pub(super) fn get(&self, end: usize) -> Option<NonNull<P>> {
        self.first(end).iter().find_map(take)
    }

    /// Returns the first `end` slots. `end` is at most `N`.
    #[inline]
    fn first(&self, end: usize) -> &[Atomic<*mut P>] {
        self.0.get(..end).unwrap_or_default()
    }

    /// Returns an iterator that takes all pages above `floor`, one for each call of `next()`.
    ///
    /// Takes the pages of the slots from `floor` on. Each page first fills an empty slot below
    /// `floor`, and is returned only if there is none. A drain never empties
    /// slots below `floor`, so any number of concurrent drains leaves `floor` pages unless another
    /// task gets them.
    pub(super) fn drain(&self, floor: usize) -> impl Iterator<Item = NonNull<P>> + '_ {
        let pages = self.0.iter().skip(floor).filter_map(take);

        pages.filter_map(move |page| self.put(page, floor).err())
    }

    /// Returns the number of pages in the slots.
    ///
    /// Exact only if no other call runs.
    pub(super) fn count(&self) -> usize {
        let slots = self.0.iter();

        slots.filter(|slot| !slot.load(Relaxed).is_null()).count()
    }
}

/// The slots that are not yet searched.
pub(super) struct EmptySlots<'a, P>(Iter<'a, Atomic<*mut P>>);

impl<P> EmptySlots<'_, P> {
    /// Puts a page into the next empty slot, or returns the page if there is none.
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
    // A load is cheaper than an exchange.
    if slot.load(Relaxed).is_null() {
        return None;
    }
    NonNull::new(slot.xchg(ptr::null_mut(), Acquire))
}
