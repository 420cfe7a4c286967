// SPDX-License-Identifier: GPL-2.0

//! A page of data, for tests of what works on the memory of bios.

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

/// A page of data to encrypt.
pub struct Buffer(Page);

impl Buffer {
    /// Returns a page with `data` at `offset`.
    pub fn new(data: &[u8], offset: usize) -> Result<Self> {
        let page = Page::alloc_page(GFP_KERNEL | __GFP_ZERO)?;

        // SAFETY: `data` is valid for reads, and nobody else knows the page.
        unsafe { page.write_raw(data.as_ptr(), offset, data.len()) }?;
        Ok(Self(page))
    }

    /// Returns `len` bytes from `offset` on.
    pub fn contents(&self, offset: usize, len: usize) -> Result<KVec<u8>> {
        let mut data = KVec::zeroed(len, GFP_KERNEL)?;

        // SAFETY: `data` is valid for writes, and nobody writes to the page meanwhile.
        unsafe { self.0.read_raw(data.as_mut_ptr(), offset, len) }?;
        Ok(data)
    }

    /// Returns `len` bytes from `offset` on, to read.
    pub fn segment(&self, offset: u32, len: u32) -> Result<Segment<'_>> {
        let (vec, iter) = self.table(offset, len);

        // SAFETY: `vec` has `len` bytes of a page that `self` keeps, and nobody changes them.
        let mut segments = unsafe { Segments::new(&raw const vec, iter) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// Returns `len` bytes from `offset` on, to write.
    pub fn segment_mut(&mut self, offset: u32, len: u32) -> Result<SegmentMut<'_>> {
        let (vec, iter) = self.table(offset, len);

        // SAFETY: As in `segment()`; `&mut self` keeps others out.
        let mut segments = unsafe { SegmentsMut::new(&raw const vec, iter) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// As [`Self::segment_mut()`] of the first bytes, and notes in `filled` what is written there.
    ///
    /// # Safety
    ///
    /// `filled` must be of these bytes, all of them.
    pub(crate) unsafe fn unfilled_segment_mut<'a>(
        &'a mut self,
        len: u32,
        filled: &'a Filled,
    ) -> Result<SegmentMut<'a>> {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment_mut()`, and by the safety requirements.
        let mut segments = unsafe { SegmentsMut::new_unfilled(&raw const vec, iter, filled) };
        segments
            .next_segment(NonZeroU32::new(len).ok_or(EINVAL)?)
            .ok_or(EINVAL)
    }

    /// Calls `f` with a walk over the first `len` bytes, to read.
    pub fn with_segments<R>(&self, len: u32, f: impl FnOnce(Segments<'_>) -> R) -> R {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment()`; `vec` is there until `f` returns.
        f(unsafe { Segments::new(&raw const vec, iter) })
    }

    /// Calls `f` with a walk over the first `len` bytes, to write.
    pub fn with_segments_mut<R>(&mut self, len: u32, f: impl FnOnce(SegmentsMut<'_>) -> R) -> R {
        let (vec, iter) = self.table(0, len);

        // SAFETY: As in `segment_mut()`; `vec` is there until `f` returns.
        f(unsafe { SegmentsMut::new(&raw const vec, iter) })
    }

    /// Makes the table of a bio of them.
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
