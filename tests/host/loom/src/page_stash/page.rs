// SPDX-License-Identifier: GPL-2.0

//! A page, and who may do what with it.

use loom::{
    cell::UnsafeCell,
    sync::atomic::AtomicPtr, //
};

use std::{
    ptr,
    sync::atomic::{
        AtomicBool,
        AtomicU32,
        Ordering::Relaxed, //
    },
};

/// A page of the model. Its memory stays until the model ends, so that a fault can be told.
///
/// The checker sees what is done with the content. It does not see the rest.
pub(crate) struct Page {
    content: UnsafeCell<u32>,
    /// In the content, for caches that have lists of pages.
    next: AtomicPtr<Page>,
    /// What was written into it last.
    written: AtomicU32,
    is_owned: AtomicBool,
    is_freed: AtomicBool,
}

// SAFETY: The checker sees who touches the content at a time.
unsafe impl Sync for Page {}

impl Page {
    /// Makes a page that somebody owns.
    pub(crate) fn new() -> Self {
        Self {
            content: UnsafeCell::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            written: AtomicU32::new(0),
            is_owned: AtomicBool::new(true),
            is_freed: AtomicBool::new(false),
        }
    }

    /// To be called by who has got it: looks into it, and writes into it.
    pub(crate) fn is_taken(&self) {
        assert!(!self.is_owned.swap(true, Relaxed), "a page has two owners");
        self.check_not_freed();
        // SAFETY: The caller owns it. If not, the checker sees it.
        let content = self.content.with(|content| unsafe { *content });
        assert_eq!(content, self.written.load(Relaxed), "another's content");
        self.write(content + 1);
    }

    /// To be called by its owner.
    pub(crate) fn write(&self, content: u32) {
        self.written.store(content, Relaxed);
        // SAFETY: As above.
        self.content.with_mut(|old| unsafe { *old = content });
    }

    /// To be called by its owner, who is about to give it away.
    pub(crate) fn is_given(&self) {
        assert!(self.is_owned.swap(false, Relaxed), "given by nobody");
    }

    /// To be called by its owner: gives it to the page allocator, where others write into it.
    pub(crate) fn free(&self) {
        self.write(0xdead);
        assert!(!self.is_freed.swap(true, Relaxed), "freed twice");
    }

    /// Tells whether somebody owns it, or the page allocator does.
    pub(crate) fn is_out(&self) -> bool {
        self.is_owned.load(Relaxed)
    }

    /// Where lists of pages have the next one.
    pub(crate) fn next(&self) -> &AtomicPtr<Page> {
        self.check_not_freed();
        &self.next
    }

    fn check_not_freed(&self) {
        assert!(!self.is_freed.load(Relaxed), "touched after it was freed");
    }
}
