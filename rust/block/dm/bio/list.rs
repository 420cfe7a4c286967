// SPDX-License-Identifier: GPL-2.0

//! Lists of bios.

use core::mem;

use crate::block::dm::target::Target;

use super::{
    owned::Bio,
    per_bio::Ptr, //
};

/// A list of bios of a target, which needs no memory: the links are in the bios.
///
/// The first to come in is the first to go out. Those that are in the list when it is dropped end with
/// [`BlkError::IOERR`], one after the other. C: `struct bio_list`.
///
/// [`BlkError::IOERR`]: crate::block::bio::BlkError::IOERR
pub struct BioList<T: Target> {
    /// Those to go out, the first in front.
    head: Option<Ptr<T>>,
    /// Those that came in since `head` was empty, the last in front.
    tail: Option<Ptr<T>>,
}

impl<T: Target> BioList<T> {
    /// Creates an empty list.
    ///
    /// Context: Any.
    pub const fn new() -> Self {
        Self {
            head: None,
            tail: None,
        }
    }

    /// Tells whether there is no bio.
    ///
    /// Context: Any.
    pub fn is_empty(&self) -> bool {
        self.head.is_none() && self.tail.is_none()
    }

    /// Adds a bio at the end.
    ///
    /// Context: Any. C: `bio_list_add()`.
    pub fn push(&mut self, bio: Bio<T>) {
        let mut ptr = bio.into_ptr();
        *ptr.next() = self.tail.take();
        self.tail = Some(ptr);
    }

    /// Takes the first bio.
    ///
    /// Context: Any. Takes the longer the more were added since this last did so, but a constant time for
    /// each. C: `bio_list_pop()`.
    pub fn pop(&mut self) -> Option<Bio<T>> {
        if self.head.is_none() {
            while let Some(mut ptr) = self.tail.take() {
                self.tail = mem::replace(ptr.next(), self.head.take());
                self.head = Some(ptr);
            }
        }
        let mut first = self.head.take()?;
        self.head = first.next().take();
        Some(Bio::new(first))
    }
}

impl<T: Target> Default for BioList<T> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: It owns bios, which may be sent, and nothing else: there is one pointer to each of them.
unsafe impl<T: Target> Send for BioList<T> where Bio<T>: Send {}

impl<T: Target> Drop for BioList<T> {
    fn drop(&mut self) {
        while let Some(bio) = self.pop() {
            drop(bio);
        }
    }
}
