// SPDX-License-Identifier: GPL-2.0

//! The memory of a bio, as segments inside pages.

use kernel::{
    num::casts::IntoSafeCast,
    page::PAGE_SIZE, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32,
    ptr::NonNull, //
};

use super::filled::{
    FillPosition,
    Filled, //
};
use crate::bindings;

mod bytes;
mod copy;

/// Memory inside a single page that C code may read during `'a`.
///
/// # Invariants
///
/// `offset + len <= PAGE_SIZE`. During `'a` the page is allocated, and these bytes may be read
/// through the kernel mapping of the page.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    page: NonNull<bindings::page>,
    offset: u32,
    len: u32,
    _memory: PhantomData<&'a [u8]>,
}

impl Segment<'_> {
    /// Returns the length in bytes, at most [`PAGE_SIZE`].
    ///
    /// Context: Any context. Never sleeps.
    #[expect(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the page, the offset into it, and the length, both in bytes.
    #[inline]
    pub(crate) fn as_raw_parts(&self) -> (*mut bindings::page, u32, u32) {
        (self.page.as_ptr(), self.offset, self.len)
    }
}

/// Memory inside a single page that C code may read and write during `'a`.
///
/// # Invariants
///
/// As those of [`Segment`]. The bytes may also be written, and no other live segment of this bio
/// contains them. If there is a position, it is that of the bytes in the memory that its
/// `Filled` counts.
pub struct SegmentMut<'a>(Segment<'a>, Option<FillPosition<'a>>);

impl<'a> SegmentMut<'a> {
    /// Returns the length in bytes, at most [`PAGE_SIZE`].
    ///
    /// Context: Any context. Never sleeps.
    #[expect(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> u32 {
        self.0.len
    }

    /// Returns the same memory for reading.
    ///
    /// The memory of a clone has stale data until it is written, from first to last: see
    /// [`Bio::bounce()`](crate::block::dm::Bio::bounce). The result ends before the first byte that
    /// was not written, so it may be shorter than `self`, or empty.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_segment(&self) -> Segment<'_> {
        let written = self.1.map(|position| position.written_len(self.0.len));
        // INVARIANT: A part of the bytes of `self`.
        Segment {
            len: written.unwrap_or(self.0.len),
            ..self.0
        }
    }

    /// Returns whether all bytes may be read, see [`Self::as_segment()`].
    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.as_segment().len == self.0.len
    }

    /// Removes the first `len` bytes from the segment, and returns them as a segment.
    ///
    /// Returns [`None`], and removes nothing, if the segment is shorter.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn split_to(&mut self, len: u32) -> Option<SegmentMut<'a>> {
        let rest = self.0.len.checked_sub(len)?;
        // INVARIANT: The bytes of `self`, so they are in its page, and at the position of `self`.
        let front = SegmentMut(Segment { len, ..self.0 }, self.1);

        // INVARIANT: The bytes after those of `front`, which ends where `self` begins now, so the
        // segments do not overlap.
        // OVERFLOW: At most `PAGE_SIZE`, by the type invariants.
        self.0.offset = self.0.offset.wrapping_add(len);
        self.0.len = rest;
        self.1 = self.1.map(|position| position.advance(len));
        Some(front)
    }

    /// Returns the page, the offset into it, and the length, both in bytes.
    #[inline]
    pub(crate) fn as_raw_parts(&self) -> (*mut bindings::page, u32, u32) {
        self.0.as_raw_parts()
    }

    /// Records that the whole segment was written.
    ///
    /// The caller must have written it, or must reset [`Self::filled()`] if the write fails.
    #[inline]
    pub(crate) fn record_filled(&self) {
        if let Some(position) = self.1 {
            position.record(0, self.0.len);
        }
    }

    /// Returns the counter of written bytes, if the segment has one.
    #[inline]
    pub(crate) fn filled(&self) -> Option<&'a Filled> {
        Some(self.1?.filled())
    }
}

/// An iterator over the memory of a bio by segments.
///
/// # Invariants
///
/// If `left_bytes` is not 0, `vec` is an element of a table of `bio_vec`s with at least
/// `left_bytes` bytes from byte `offset` of `vec` on, and `offset` is at most `vec.bv_len`. During
/// `'a`, table and pages do not change.
pub struct Segments<'a> {
    vec: *const bindings::bio_vec,
    left_bytes: u32,
    offset: u32,
    _bio: PhantomData<&'a bindings::bio>,
}

impl<'a> Segments<'a> {
    /// Creates an iterator.
    ///
    /// # Safety
    ///
    /// - `table` must have at least `iter.bi_size` bytes from `iter` on, unless `iter.bi_size` is
    ///   0.
    /// - During `'a`, the table must not change and the bytes must stay readable.
    #[inline]
    pub(crate) unsafe fn new(table: *const bindings::bio_vec, iter: bindings::bvec_iter) -> Self {
        // INVARIANT: By this function's contract.
        Self {
            vec: table.wrapping_add(iter.bi_idx.into_safe_cast()),
            left_bytes: iter.bi_size,
            offset: iter.bi_offset,
            _bio: PhantomData,
        }
    }

    /// Returns the number of bytes left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn remaining_bytes(&self) -> u32 {
        self.left_bytes
    }

    /// Returns the next segment, of at most `max_bytes` bytes, or [`None`] at the end.
    ///
    /// A segment never crosses a page, so it may be shorter than `max_bytes` before the end.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn next_segment(&mut self, max_bytes: NonZeroU32) -> Option<Segment<'a>> {
        const PAGE_BYTES: u32 = PAGE_SIZE as u32;

        loop {
            if self.left_bytes == 0 {
                return None;
            }

            // SAFETY: There are bytes left, so `vec` is an element of the table, which does not
            // change, by the type invariants.
            let vec = unsafe { *self.vec };

            // The arithmetic follows `bvec_iter_bvec()` and `bvec_iter_advance_single()`. No
            // operation wraps: `offset` is at most `bv_len` by the type invariants, and C keeps the
            // end of a `bio_vec` below 4 GiB.
            let left = vec.bv_len.wrapping_sub(self.offset);
            let start = vec.bv_offset.wrapping_add(self.offset);
            let offset = start % PAGE_BYTES;
            let len = left
                .min(self.left_bytes)
                .min(PAGE_BYTES - offset)
                .min(max_bytes.get());

            // INVARIANT: The bytes behind the segment are left. If they do not begin in this
            // `bio_vec`, they begin in the next one.
            self.left_bytes -= len;
            if len == left {
                self.vec = self.vec.wrapping_add(1);
                self.offset = 0;
            } else {
                self.offset = self.offset.wrapping_add(len);
            }
            if len == 0 {
                // An empty `bio_vec`: C skips it too.
                continue;
            }

            // The pages of one `bio_vec` are adjacent in the memory map, see `bvec_iter_page()`.
            let page = vec
                .bv_page
                .wrapping_add((start / PAGE_BYTES).into_safe_cast());
            // INVARIANT: `offset + len <= PAGE_SIZE` by the minimum above; the other invariants are
            // those of `self`.
            return Some(Segment {
                page: NonNull::new(page)?,
                offset,
                len,
                _memory: PhantomData,
            });
        }
    }
}

/// A mutable iterator over the memory of a bio by segments.
///
/// # Invariants
///
/// The bytes that `0` has not yet visited may be written during `'a`, and no other Rust code has a
/// segment of them. If there is a `Filled`, these bytes are the last ones of the memory that it
/// counts. The number is the size of this memory in bytes.
pub struct SegmentsMut<'a>(Segments<'a>, Option<(&'a Filled, u32)>);

impl<'a> SegmentsMut<'a> {
    /// Creates an iterator.
    ///
    /// # Safety
    ///
    /// - As for [`Segments::new()`], and the bytes may be written during `'a`.
    /// - During `'a` no other iterator over these bytes may exist.
    pub(crate) unsafe fn new(table: *const bindings::bio_vec, iter: bindings::bvec_iter) -> Self {
        // SAFETY: By this function's contract, which includes that of `new()`.
        // INVARIANT: By this function's contract.
        Self(unsafe { Segments::new(table, iter) }, None)
    }

    /// Creates an iterator over new memory that counts written bytes in `filled`.
    ///
    /// # Safety
    ///
    /// As for [`Self::new()`], and `filled` must count all of these bytes.
    #[inline]
    pub(crate) unsafe fn new_unfilled(
        table: *const bindings::bio_vec,
        iter: bindings::bvec_iter,
        filled: &'a Filled,
    ) -> Self {
        // SAFETY: By this function's contract, which includes that of `new()`.
        // INVARIANT: By this function's contract.
        Self(
            unsafe { Segments::new(table, iter) },
            Some((filled, iter.bi_size)),
        )
    }

    /// Returns the number of bytes left.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn remaining_bytes(&self) -> u32 {
        self.0.remaining_bytes()
    }

    /// Returns the next segment, of at most `max_bytes` bytes, or [`None`] at the end.
    ///
    /// A segment never crosses a page, so it may be shorter than `max_bytes` before the end.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn next_segment(&mut self, max_bytes: NonZeroU32) -> Option<SegmentMut<'a>> {
        // OVERFLOW: The number of bytes left never exceeds `len`.
        let position = self.1.map(|(filled, len)| {
            FillPosition::new(filled, len.wrapping_sub(self.remaining_bytes()))
        });

        // INVARIANT: `0` visits every byte once, so no two segments overlap. The bytes may be
        // written by the type invariants. The remaining bytes begin with the segment.
        let segment = self.0.next_segment(max_bytes)?;
        Some(SegmentMut(segment, position))
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_bio_segment)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    use crate::mm::{
        gfp::Gfp,
        page::Page, //
    };

    /// Iterates over `vecs` from byte `start` of the first, `size` bytes in steps of `max`. Returns
    /// the page index (counted from `first`), offset and length of each segment.
    fn walk(
        first: *mut bindings::page,
        vecs: &[(usize, u32, u32)],
        start: u32,
        size: u32,
        max: u32,
    ) -> Result<KVec<(usize, u32, u32)>> {
        let mut table = KVec::new();
        for &(page, bv_offset, bv_len) in vecs {
            let vec = bindings::bio_vec {
                bv_page: first.wrapping_add(page),
                bv_len,
                bv_offset,
            };
            table.push(vec, GFP_KERNEL)?;
        }
        let iter = bindings::bvec_iter {
            bi_size: size,
            bi_offset: start,
            ..Default::default()
        };
        // SAFETY: The callers pass at most as many bytes as `vecs` have, and `table` outlives the
        // iterator. No segment is read.
        let mut segments = unsafe { Segments::new(table.as_ptr(), iter) };
        let mut seen = KVec::new();
        while let Some(segment) = segments.next_segment(NonZeroU32::new(max).ok_or(EINVAL)?) {
            let (page, offset, len) = segment.as_raw_parts();
            let index = (page as usize - first as usize) / size_of::<bindings::page>();
            seen.push((index, offset, len), GFP_KERNEL)?;
        }
        Ok(seen)
    }

    #[test]
    fn segments_follow_the_table() -> Result {
        let page = Page::<0>::alloc(Gfp::KERNEL)?;
        let first = page.as_ptr();
        let whole = PAGE_SIZE as u32;

        // A whole page at once, and a part of it in steps.
        assert_eq!(
            walk(first, &[(0, 0, whole)], 0, whole, whole)?[..],
            [(0, 0, whole)]
        );
        assert_eq!(
            walk(first, &[(0, 512, 1024)], 0, 1024, 512)?[..],
            [(0, 512, 512), (0, 1024, 512)]
        );
        // A vector over several pages is split at page boundaries, for any offset.
        assert_eq!(
            walk(first, &[(0, whole - 512, 1024)], 0, 1024, whole)?[..],
            [(0, whole - 512, 512), (1, 0, 512)]
        );
        assert_eq!(
            walk(first, &[(0, 2 * whole + 8, 16)], 0, 16, whole)?[..],
            [(2, 8, 16)]
        );
        // An iterator may begin and end inside a vector, and skips empty vectors.
        assert_eq!(
            walk(
                first,
                &[(0, 0, 1024), (1, 0, 0), (2, 0, 1024)],
                512,
                1024,
                whole
            )?[..],
            [(0, 512, 512), (2, 0, 512)]
        );
        Ok(())
    }

    #[test]
    fn empty_bio_has_no_segments() -> Result {
        let page = Page::<0>::alloc(Gfp::KERNEL)?;
        assert!(walk(page.as_ptr(), &[], 0, 0, 512)?.is_empty());
        Ok(())
    }
}
