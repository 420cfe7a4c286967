// SPDX-License-Identifier: GPL-2.0

//! A list and a count, as in "kvfree_rcu: convert a page cache to lock-free variant" of 2021.
//!
//! It has the interface of `rust/mm/page_stash/slots.rs`. The list is that of `lib/llist.c`, with
//! links in the pages: several tasks may add to it at once, but only one may remove single entries.

use loom::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{
        AcqRel,
        Acquire,
        Relaxed, //
    },
};

use std::{
    iter,
    ptr::{
        self,
        NonNull, //
    }, //
};

use super::page::Page;

/// The part of `struct kfree_rcu_cpu` that concerns pages.
pub(super) struct Slots<P, const N: usize> {
    bkvcache: AtomicPtr<P>,
    nr_bkv_objs: AtomicUsize,
}

/// `atomic_test_inc_dec()` of the patch: moves `v` by one, unless `cur` is at its end.
fn test_and_move(v: &AtomicUsize, to: impl Fn(usize) -> Option<usize>) -> bool {
    let mut cur = v.load(Relaxed);
    while let Some(next) = to(cur) {
        match v.compare_exchange(cur, next, AcqRel, Relaxed) {
            Ok(_) => return true,
            Err(seen) => cur = seen,
        }
    }
    false
}

impl<const N: usize> Slots<Page, N> {
    pub(super) fn new() -> Self {
        Self {
            bkvcache: AtomicPtr::new(ptr::null_mut()),
            nr_bkv_objs: AtomicUsize::new(0),
        }
    }

    /// `put_cached_bnode()`, with `rcu_min_cached_objs` as `end`.
    pub(super) fn put(&self, page: NonNull<Page>, end: usize) -> Result<(), NonNull<Page>> {
        if !test_and_move(&self.nr_bkv_objs, |cur| (cur < end).then_some(cur + 1)) {
            return Err(page);
        }
        self.llist_add(page);
        Ok(())
    }

    /// `get_cached_bnode()`.
    pub(super) fn get(&self, _end: usize) -> Option<NonNull<Page>> {
        if test_and_move(&self.nr_bkv_objs, |cur| cur.checked_sub(1)) {
            self.llist_del_first()
        } else {
            None
        }
    }

    /// `drain_page_cache()`, except that it drains all pages.
    pub(super) fn drain(&self, _floor: usize) -> impl Iterator<Item = NonNull<Page>> + '_ {
        let num_pages = self.nr_bkv_objs.load(Relaxed);
        iter::from_fn(|| self.get(0)).take(num_pages)
    }

    pub(super) fn count(&self) -> usize {
        self.nr_bkv_objs.load(Relaxed)
    }

    fn llist_add(&self, page: NonNull<Page>) {
        // SAFETY: The model frees pages at its end.
        let next = unsafe { page.as_ref() }.next();
        let mut first = self.bkvcache.load(Relaxed);
        loop {
            next.store(first, Relaxed);
            match self
                .bkvcache
                .compare_exchange(first, page.as_ptr(), AcqRel, Relaxed)
            {
                Ok(_) => return,
                Err(seen) => first = seen,
            }
        }
    }

    fn llist_del_first(&self) -> Option<NonNull<Page>> {
        let mut entry = self.bkvcache.load(Acquire);
        loop {
            let page = NonNull::new(entry)?;
            // SAFETY: The model frees pages at its end.
            let next = unsafe { page.as_ref() }.next().load(Relaxed);
            match self.bkvcache.compare_exchange(entry, next, AcqRel, Acquire) {
                Ok(_) => return Some(page),
                Err(seen) => entry = seen,
            }
        }
    }
}
