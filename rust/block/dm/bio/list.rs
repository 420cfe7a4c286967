// SPDX-License-Identifier: GPL-2.0

//! Lists of bios.

use core::mem;

use crate::block::dm::target::Target;

use super::{
    owned::Bio,
    per_bio::PerBioRef, //
};

/// A FIFO list of bios of a target. It allocates nothing: the links are in the per-bio data.
///
/// Dropping the list ends its bios with [`BlkError::IOERR`] one by one. C: `struct bio_list`.
///
/// [`BlkError::IOERR`]: crate::block::bio::BlkError::IOERR
pub struct BioList<T: Target> {
    /// Bios to pop, the oldest in front.
    head: Option<PerBioRef<T>>,
    /// Bios that were pushed since `head` was filled, the newest in front.
    tail: Option<PerBioRef<T>>,
}

impl<T: Target> BioList<T> {
    /// Creates an empty list.
    ///
    /// Context: Any context. Never sleeps.
    pub const fn new() -> Self {
        Self {
            head: None,
            tail: None,
        }
    }

    /// Adds a bio at the end.
    ///
    /// Context: Any context. Never sleeps. C: `bio_list_add()`.
    pub fn push(&mut self, bio: Bio<T>) {
        let mut ptr = bio.into_ptr();
        *ptr.next() = self.tail.take();
        self.tail = Some(ptr);
    }

    /// Removes the first bio.
    ///
    /// Context: Any context. Never sleeps. Takes amortised constant time: a call may reverse all
    /// bios that were pushed since the last reversal. C: `bio_list_pop()`.
    pub fn pop(&mut self) -> Option<Bio<T>> {
        self.fill_head();
        let mut first = self.head.take()?;
        self.head = first.next().take();
        Some(Bio::new(first))
    }

    /// Returns the per-bio data of the first bio, which stays in the list.
    ///
    /// Context: Any context. Never sleeps. Takes as long as [`pop()`](Self::pop). C:
    /// `bio_list_peek()`.
    pub fn first_data(&mut self) -> Option<&mut T::PerBio> {
        self.fill_head();
        self.head.as_mut().map(PerBioRef::data)
    }

    /// Moves the bios to `head`, in their order, if it is empty.
    fn fill_head(&mut self) {
        if self.head.is_none() {
            while let Some(mut ptr) = self.tail.take() {
                self.tail = mem::replace(ptr.next(), self.head.take());
                self.head = Some(ptr);
            }
        }
    }
}

impl<T: Target> Default for BioList<T> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: The list owns its bios, which are `Send`: there is a single pointer to each of them.
unsafe impl<T: Target> Send for BioList<T> where Bio<T>: Send {}

impl<T: Target> Drop for BioList<T> {
    fn drop(&mut self) {
        while let Some(bio) = self.pop() {
            drop(bio);
        }
    }
}
