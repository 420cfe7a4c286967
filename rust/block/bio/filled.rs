// SPDX-License-Identifier: GPL-2.0

//! How much of new memory was written.

use core::cell::Cell;

/// How many bytes of a bio's own memory were written, from its start on.
///
/// What is written out of order does not count.
///
/// # Invariants
///
/// So many bytes have been written since the memory was allocated, or are being written by a request
/// that [`Filled::reset()`] is called after should it fail, before the memory is used for anything else.
pub(crate) struct Filled(Cell<u32>);

impl Filled {
    /// Nothing was written.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No bytes.
        Self(Cell::new(0))
    }

    /// Returns how many bytes were written.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.get()
    }

    /// Forgets what was written.
    #[cold]
    pub(crate) fn reset(&self) {
        // INVARIANT: No bytes.
        self.0.set(0);
    }
}

/// A place in memory of which it is noted how much was written.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    filled: &'a Filled,
    start: u32,
}

impl<'a> Place<'a> {
    /// Returns the place of byte `start` of the memory.
    #[inline]
    pub(super) fn new(filled: &'a Filled, start: u32) -> Self {
        Self { filled, start }
    }

    /// Notes that `len` bytes were written, `offset` bytes from here.
    ///
    /// The caller must have written them, or call [`Filled::reset()`] if it turns out that it has not.
    #[inline]
    pub(super) fn note(self, offset: u32, len: u32) {
        if self.start.wrapping_add(offset) == self.filled.len() {
            // INVARIANT: What comes next was written.
            // OVERFLOW: Not beyond the end of the memory of a bio, which has less than 4 GiB.
            self.filled.0.set(self.filled.len().wrapping_add(len));
        }
    }

    /// Returns where it is noted.
    #[inline]
    pub(super) fn filled(self) -> &'a Filled {
        self.filled
    }
}
