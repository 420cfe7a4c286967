// SPDX-License-Identifier: GPL-2.0

//! How readers walk a list.

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
    /// What is on the list all the time is met once, what is inserted or removed meanwhile at most
    /// once. An item that is met stays as it is as long as the guard, so the caller may sleep.
    ///
    /// Fails with [`WrongDomain`] unless `section` is of this list's domain.
    ///
    /// Context: as the guard. Never sleeps. C: `list_for_each_entry_srcu()`.
    #[inline]
    pub fn walk<'a>(
        &'a self,
        section: &'a impl ReadSection<F>,
    ) -> Result<Walk<'a, T>, WrongDomain> {
        guard::check(self.domain(), section)?;
        // SAFETY: `section` is of this domain, and borrowed as the list is.
        Ok(unsafe { self.walk_unchecked() })
    }

    /// Takes a guard, under which the list can be walked.
    ///
    /// Context: as [`Domain::read_lock()`](super::Domain::read_lock). Never sleeps.
    #[inline]
    pub fn read(&self) -> ListGuard<'_, T, F> {
        // INVARIANT: It is of this list's domain.
        ListGuard {
            list: self,
            guard: self.domain().read_lock(),
        }
    }

    /// Walks the list.
    ///
    /// # Safety
    ///
    /// There must be a guard of `domain` for `'a`.
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

/// A guard of the domain of a [`List`].
///
/// # Invariants
///
/// `guard` is of the domain of `list`.
#[must_use = "the critical section ends at once"]
pub struct ListGuard<'a, T, F: Flavor> {
    list: &'a List<T, F>,
    guard: Guard<'a, F>,
}

impl<'a, T, F: Flavor> ListGuard<'a, T, F> {
    /// Walks the list, as [`List::walk()`] does.
    ///
    /// Context: as the guard. Never sleeps. C: `list_for_each_entry_srcu()`.
    #[inline]
    pub fn walk(&self) -> Walk<'_, T> {
        // SAFETY: By the type invariants there is a guard, and `self` is borrowed.
        unsafe { self.list.walk_unchecked() }
    }

    /// Returns the guard, for what else is of its domain.
    #[inline]
    pub fn guard(&self) -> &Guard<'a, F> {
        &self.guard
    }
}

/// The items of a [`List`], as one reader meets them.
///
/// # Invariants
///
/// - `head` is that of a list, and `at` that or the links of a node that was on it.
/// - There has been a guard of the list's domain since `at` was `head`, and is for `'a`.
pub struct Walk<'a, T> {
    at: *mut bindings::list_head,
    head: *mut bindings::list_head,
    _items: PhantomData<&'a T>,
}

impl<'a, T> Iterator for Walk<'a, T> {
    type Item = &'a T;

    #[inline]
    fn next(&mut self) -> Option<&'a T> {
        // SAFETY: By the type invariants `at` was on the list when or after the guard was taken, so
        // it is not freed before that is dropped. If it was removed since, it still leads to what
        // was behind it then, see `list_del_rcu()` in `include/linux/rculist.h`.
        let next = unsafe { bindings::list_next_rcu(self.at) };
        if next == self.head {
            // `at` stays, so this is the end, until something is inserted.
            return None;
        }
        // INVARIANT: It was on the list when the guard was there: what `at` leads to was removed
        // after `at`, or not at all.
        self.at = next;
        // SAFETY: By the type invariants of the list.
        let node: *mut Node<T> = unsafe { node_of(next) };
        // SAFETY: The node is not freed as long as the guard, hence for `'a`. Only `value` is
        // borrowed, and nobody writes to that.
        Some(unsafe { &(*node).value })
    }
}
