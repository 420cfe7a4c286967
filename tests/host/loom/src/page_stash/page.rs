// SPDX-License-Identifier: GPL-2.0

//! A page, and the checks of its ownership.

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

/// A page of the model. Its memory stays valid until the model ends, so that errors are detected.
///
/// The checker tracks accesses to the content only.
pub(crate) struct Page {
    content: UnsafeCell<u32>,
    /// The link in the content, for caches with lists of pages.
    next: AtomicPtr<Page>,
    /// The last value that was written.
    written: AtomicU32,
    is_owned: AtomicBool,
    is_freed: AtomicBool,
}

// SAFETY: The checker detects concurrent accesses to the content.
unsafe impl Sync for Page {}

impl Page {
    /// Creates a page with an owner.
    pub(crate) fn new() -> Self {
        Self {
            content: UnsafeCell::new(0),
            next: AtomicPtr::new(ptr::null_mut()),
            written: AtomicU32::new(0),
            is_owned: AtomicBool::new(true),
            is_freed: AtomicBool::new(false),
        }
    }

    /// Must be called by the new owner: reads and writes the content.
    pub(crate) fn is_taken(&self) {
        assert!(!self.is_owned.swap(true, Relaxed), "a page has two owners");
        self.check_not_freed();
        // SAFETY: The caller owns it. If not, the checker detects that.
        let content = self.content.with(|content| unsafe { *content });
        assert_eq!(content, self.written.load(Relaxed), "another's content");
        self.write(content + 1);
    }

    /// Must be called by the owner.
    pub(crate) fn write(&self, content: u32) {
        self.written.store(content, Relaxed);
        // SAFETY: As above.
        self.content.with_mut(|old| unsafe { *old = content });
    }

    /// Must be called by the owner before it gives up the page.
    pub(crate) fn is_given(&self) {
        assert!(self.is_owned.swap(false, Relaxed), "given by nobody");
    }

    /// Must be called by the owner: frees the page to the page allocator, where others write to it.
    pub(crate) fn free(&self) {
        self.write(0xdead);
        assert!(!self.is_freed.swap(true, Relaxed), "freed twice");
    }

    /// Returns whether the page has an owner or is free.
    pub(crate) fn is_out(&self) -> bool {
        self.is_owned.load(Relaxed)
    }

    /// The link of lists of pages.
    pub(crate) fn next(&self) -> &AtomicPtr<Page> {
        self.check_not_freed();
        &self.next
    }

    fn check_not_freed(&self) {
        assert!(!self.is_freed.load(Relaxed), "touched after it was freed");
    }
}
