// SPDX-License-Identifier: GPL-2.0

//! Walks: how readers iterate over a list.

use core::marker::PhantomData;

use crate::bindings;

use super::{
    flavor::Flavor,
    guard::{
        self,
        Guard,
        ReadSection,
        WrongDomain, //
    },
    item::Node,
    list::{
        node_of,
        List, //
    }, //
};

impl<T, F: Flavor> List<T, F> {
    /// Walks the list.
    ///
    /// The walk returns each item that stays on the list exactly once. It returns an item that is
    /// inserted or removed meanwhile at most once. A returned item stays valid while the guard
    /// lives, so the caller may sleep.
    ///
    /// Fails with [`WrongDomain`] unless `section` is of this list's domain.
    ///
    /// Context: The context of the guard. Never sleeps. C: `list_for_each_entry_srcu()` in
    /// `include/linux/rculist.h`.
    #[inline]
    pub fn walk<'a>(
        &'a self,
        section: &'a impl ReadSection<F>,
    ) -> Result<Walk<'a, T>, WrongDomain> {
        guard::check(self.domain(), section)?;
        // SAFETY: `section` is of this domain, and is borrowed for `'a` as the list is.
        Ok(unsafe { self.walk_unchecked() })
    }

    /// Takes a guard for walks of this list.
    ///
    /// Context: As [`Domain::read_lock()`](super::Domain::read_lock).
    #[inline]
    pub fn read(&self) -> ListGuard<'_, T, F> {
        // INVARIANT: The guard is of this list's domain.
        ListGuard {
            list: self,
            _guard: self.domain().read_lock(),
        }
    }

    /// Walks the list.
    ///
    /// # Safety
    ///
    /// A guard of `domain` must be held for `'a`.
    #[inline]
    unsafe fn walk_unchecked<'a>(&'a self) -> Walk<'a, T> {
        // INVARIANT: By the contract of this function.
        Walk {
            at: self.head.get(),
            head: self.head.get(),
            _items: PhantomData,
        }
    }
}

/// A guard of the domain of a [`List`], for walks.
///
/// # Invariants
///
/// `_guard` is of the domain of `list`.
#[must_use = "the critical section ends at once"]
pub struct ListGuard<'a, T, F: Flavor> {
    list: &'a List<T, F>,
    _guard: Guard<'a, F>,
}

impl<'a, T, F: Flavor> ListGuard<'a, T, F> {
    /// Walks the list, as [`List::walk()`] does.
    ///
    /// Context: The context of the guard. Never sleeps. C: `list_for_each_entry_srcu()` in
    /// `include/linux/rculist.h`.
    #[inline]
    pub fn walk(&self) -> Walk<'_, T> {
        // SAFETY: By the type invariants a guard is held, and `self` is borrowed.
        unsafe { self.list.walk_unchecked() }
    }
}

/// An iterator over the items of a [`List`].
///
/// # Invariants
///
/// - `head` is the head of a list. `at` is `head`, or the links of a node that was on this list.
/// - A guard of the list's domain has been held since `at` was `head`, and is held for `'a`.
pub struct Walk<'a, T> {
    at: *mut bindings::list_head,
    head: *mut bindings::list_head,
    _items: PhantomData<&'a T>,
}

impl<'a, T> Iterator for Walk<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        // SAFETY: By the type invariants `at` was on the list at some time since the guard was
        // taken. So the node is not freed before the guard is dropped. A removed node still leads
        // to its successor at the time of its removal, see `list_del_rcu()` in
        // `include/linux/rculist.h`.
        let next = unsafe { bindings::list_next_rcu(self.at) };
        if next == self.head {
            // `at` stays: the walk is at its end until a writer appends an item.
            return None;
        }
        // INVARIANT: `next` was on the list while the guard was held: it was removed after `at`, or
        // not at all.
        self.at = next;
        // SAFETY: By the type invariants of the list.
        let node: *mut Node<T> = unsafe { node_of(next) };
        // SAFETY: The node is not freed while the guard is held, hence for `'a`. Only `value` is
        // borrowed, and nothing writes to it.
        Some(unsafe { &(*node).value })
    }
}
