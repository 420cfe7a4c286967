// SPDX-License-Identifier: GPL-2.0

//! A page of data for tests of functions on bio memory.

use kernel::{
    page::Page,
    prelude::*, //
};

use core::num::NonZeroU32;

use super::{
    Filled,
    Segment,
    SegmentMut,
    Segments,
    SegmentsMut, //
};
use crate::bindings;

/// A page of test data.
pub struct Buffer(Page);

impl Buffer {
    /// Returns a page with `data` at `offset`.
    pub fn new(data: &[u8], offset: usize) -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?;

        // SAFETY: `data` is valid for reads, and the page is not shared yet.
        unsafe { page.write_raw(data.as_ptr(), offset, data.len()) }?;
        Ok(Self(page))
    }

    /// Returns `len` bytes from `offset` on.
    pub fn contents(&self, offset: usize, len: usize) -> Result<KVec<u8>> {
        let mut data = KVec::zeroed(len, GFP_KERNEL)?;

        // SAFETY: `data` is valid for writes, and nothing writes to the page meanwhile.
        unsafe { self.0.read_raw(data.as_mut_ptr(), offset, len) }?;
        Ok(data)
    }

    /// Returns `len` bytes from `offset` on as a segment.
    pub fn segment(&self, offset: u32, len: u32) -> Result<Segment<'_>> {
        let (vec, iter) = self.table(offset, len);

        // SAFETY: `vec` has `len` bytes of a page that `self` owns, and nothing changes them.
        let mut segments = unsafe { Segments::new(&raw const vec, iter) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// Returns `len` bytes from `offset` on as a mutable segment.
    pub fn segment_mut(&mut self, offset: u32, len: u32) -> Result<SegmentMut<'_>> {
        let (vec, iter) = self.table(offset, len);

        // SAFETY: As in `segment()`; `&mut self` excludes other users.
        let mut segments = unsafe { SegmentsMut::new(&raw const vec, iter) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// As [`Self::segment_mut()`] of the first `len` bytes, and counts written bytes in `filled`.
    ///
    /// # Safety
    ///
    /// `filled` must count all of these bytes.
    pub(crate) unsafe fn unfilled_segment_mut<'a>(
        &'a mut self,
        len: u32,
        filled: &'a Filled,
    ) -> Result<SegmentMut<'a>> {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment_mut()`, and by this function's contract.
        let mut segments = unsafe { SegmentsMut::new_unfilled(&raw const vec, iter, filled) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// Calls `f` with an iterator over the first `len` bytes.
    pub fn with_segments<R>(&self, len: u32, f: impl FnOnce(Segments<'_>) -> R) -> R {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment()`; `vec` lives until `f` returns.
        f(unsafe { Segments::new(&raw const vec, iter) })
    }

    /// Calls `f` with a mutable iterator over the first `len` bytes.
    pub fn with_segments_mut<R>(&mut self, len: u32, f: impl FnOnce(SegmentsMut<'_>) -> R) -> R {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment_mut()`; `vec` lives until `f` returns.
        f(unsafe { SegmentsMut::new(&raw const vec, iter) })
    }

    /// Makes the table and the position of a bio with these bytes.
    fn table(&self, offset: u32, len: u32) -> (bindings::bio_vec, bindings::bvec_iter) {
        let vec = bindings::bio_vec {
            bv_page: self.0.as_ptr(),
            bv_len: len,
            bv_offset: offset,
        };
        let iter = bindings::bvec_iter {
            bi_size: len,
            ..Default::default()
        };
        (vec, iter)
    }
}
