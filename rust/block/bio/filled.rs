// SPDX-License-Identifier: GPL-2.0

//! A counter of the written bytes of new memory.

use core::cell::Cell;

/// The number of bytes of a bio's own memory that were written, from its start on.
///
/// Bytes that are written out of order do not count.
///
/// # Invariants
///
/// This number of bytes was written since the memory was allocated, or is being written by a
/// request. If such a request fails, [`Filled::reset()`] is called before the memory is used.
pub(crate) struct Filled(Cell<u32>);

impl Filled {
    /// Creates a counter of 0 bytes.
    pub(crate) const fn new() -> Self {
        // INVARIANT: No bytes.
        Self(Cell::new(0))
    }

    /// Returns the number of bytes written.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.0.get()
    }

    /// Sets the counter to `len` bytes, which a device has written.
    pub(crate) fn set(&self, len: u32) {
        // INVARIANT: This number of bytes was written.
        self.0.set(len);
    }

    /// Resets the counter to 0.
    #[cold]
    pub(crate) fn reset(&self) {
        // INVARIANT: No bytes.
        self.0.set(0);
    }
}

/// A position in memory whose written bytes are counted.
#[derive(Clone, Copy)]
pub(crate) struct FillPosition<'a> {
    filled: &'a Filled,
    start: u32,
}

impl<'a> FillPosition<'a> {
    /// Returns the position of byte `start` of the memory.
    #[inline]
    pub(super) fn new(filled: &'a Filled, start: u32) -> Self {
        Self { filled, start }
    }

    /// Returns the position `len` bytes later.
    #[inline]
    pub(super) fn advance(self, len: u32) -> Self {
        // OVERFLOW: As in `record()`.
        Self::new(self.filled, self.start.wrapping_add(len))
    }

    /// Records that `len` bytes were written, `offset` bytes from here.
    ///
    /// The caller must have written them, or must call [`Filled::reset()`] if the write fails.
    #[inline]
    pub(super) fn record(self, offset: u32, len: u32) {
        if self.start.wrapping_add(offset) == self.filled.len() {
            // INVARIANT: The next bytes in order were written.
            // OVERFLOW: At most the size of the memory of a bio, which is below 4 GiB.
            self.filled.0.set(self.filled.len().wrapping_add(len));
        }
    }

    /// Returns how many of `len` bytes from here on were written, up to the first that was not.
    #[inline]
    pub(super) fn written_len(self, len: u32) -> u32 {
        self.filled.len().saturating_sub(self.start).min(len)
    }

    /// Returns the counter.
    #[inline]
    pub(super) fn filled(self) -> &'a Filled {
        self.filled
    }
}
