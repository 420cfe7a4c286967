// SPDX-License-Identifier: GPL-2.0

//! Copies between bios.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32, //
};

use crate::bindings;

use super::{
    Segment,
    SegmentMut,
    Segments,
    SegmentsMut, //
};

impl SegmentMut<'_> {
    /// Copies `src` to this segment.
    ///
    /// If a byte is written concurrently, the copy has its old or its new value. The segments may
    /// overlap: the copy is then the old content of `src`.
    ///
    /// Fails with [`EINVAL`], and copies nothing, if the lengths differ.
    ///
    /// Context: Any context. Never sleeps. C: `memcpy_page()` in `include/linux/highmem.h`, with
    /// `memmove()`.
    #[inline]
    pub fn copy_from(&mut self, src: Segment<'_>) -> Result {
        let (to, to_offset, len) = self.as_raw_parts();
        let (from, from_offset, from_len) = src.as_raw_parts();

        if len != from_len {
            return Err(EINVAL);
        }
        // CAST: From 32 to 64 bits, three times.
        //
        // SAFETY:
        // - Both pages have `len` bytes there, which may be read and written, by the type
        //   invariants.
        // - They may overlap: two entries of a bio's table may name the same page, and `memmove()`
        //   copies overlapping memory.
        // - Other tasks or devices may write to both. No access to them is Rust code, see
        //   `Segment::read_at()`.
        unsafe {
            bindings::kscale_memmove_page(
                to,
                to_offset as usize,
                from,
                from_offset as usize,
                len as usize,
            )
        };
        self.record_filled();
        Ok(())
    }
}

impl SegmentsMut<'_> {
    /// Copies the rest of `src` to the rest of `self`. The segment boundaries may differ. Does not
    /// advance `self`.
    ///
    /// Fails with [`EINVAL`], and copies nothing, if the lengths differ.
    ///
    /// Context: Any context. Never sleeps. C: `bio_copy_data()` in `block/bio.c`.
    pub fn copy_from(&mut self, mut src: Segments<'_>) -> Result {
        const PAGE: NonZeroU32 = match NonZeroU32::new(PAGE_SIZE as u32) {
            Some(size) => size,
            None => NonZeroU32::MIN,
        };

        if self.remaining_bytes() != src.remaining_bytes() {
            return Err(EINVAL);
        }
        // INVARIANT: No segment of `self` exists while it is borrowed, and no segment of `walk`
        // outlives this borrow.
        let segments = Segments {
            _bio: PhantomData,
            ..self.0
        };
        let mut walk = Self(segments, self.1);
        while let Some(from) = src.next_segment(PAGE) {
            let mut done = 0;
            while let Some(left) = NonZeroU32::new(from.len() - done) {
                let mut to = walk.next_segment(left).ok_or(EINVAL)?;
                let piece = from.piece(done, to.len()).ok_or(EINVAL)?;
                // OVERFLOW: At most the length of `from`.
                done += to.len();
                to.copy_from(piece)?;
            }
        }
        Ok(())
    }
}

impl Segment<'_> {
    /// Returns `len` bytes from `offset` on, or [`None`] if the segment is too short.
    #[inline]
    fn piece(&self, offset: u32, len: u32) -> Option<Self> {
        // INVARIANT: The bytes are a part of those of `self`, by the check.
        (offset.checked_add(len)? <= self.len).then_some(Self {
            offset: self.offset + offset,
            len,
            ..*self
        })
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_bio_copy)]
mod tests {
    use super::*;

    use crate::{
        block::bio::Filled,
        mm::{
            gfp::Gfp,
            page::FilledPage, //
        }, //
    };

    /// Makes a table of pieces of pages.
    fn table(
        pages: &[FilledPage],
        pieces: &[(usize, u32, u32)],
    ) -> Result<KVec<bindings::bio_vec>> {
        let mut table = KVec::new();

        for &(page, bv_offset, bv_len) in pieces {
            let vec = bindings::bio_vec {
                bv_page: pages.get(page).ok_or(EINVAL)?.as_ptr(),
                bv_len,
                bv_offset,
            };
            table.push(vec, GFP_KERNEL)?;
        }
        Ok(table)
    }

    fn iter(size: u32) -> bindings::bvec_iter {
        bindings::bvec_iter {
            bi_size: size,
            ..Default::default()
        }
    }

    #[test]
    fn copy_handles_any_segment_boundaries() -> Result {
        let mut from = [
            FilledPage::zeroed(Gfp::KERNEL)?,
            FilledPage::zeroed(Gfp::KERNEL)?,
        ];
        let mut to = [
            FilledPage::zeroed(Gfp::KERNEL)?,
            FilledPage::zeroed(Gfp::KERNEL)?,
        ];
        for (n, page) in from.iter_mut().enumerate() {
            for (i, byte) in page.as_mut_slice().iter_mut().enumerate() {
                *byte = (n * 100 + i % 97) as u8;
            }
        }
        for page in &mut to {
            page.as_mut_slice().fill(0xee);
        }
        let src = table(&from, &[(0, 512, 1024), (1, 0, 512), (1, 3584, 512)])?;
        let dst = table(&to, &[(0, 3072, 1024), (1, 0, 1024)])?;

        // SAFETY: The tables have 2048 bytes, and nothing else uses them.
        let (segments, mut segments_mut) = unsafe {
            (
                Segments::new(src.as_ptr(), iter(2048)),
                SegmentsMut::new(dst.as_ptr(), iter(2048)),
            )
        };
        segments_mut.copy_from(segments)?;
        assert_eq!(segments_mut.remaining_bytes(), 2048);

        assert!(to[0].as_slice()[3072..] == from[0].as_slice()[512..1536]);
        assert!(to[1].as_slice()[..512] == from[1].as_slice()[..512]);
        assert!(to[1].as_slice()[512..1024] == from[1].as_slice()[3584..]);
        assert!(to[0].as_slice()[..3072].iter().all(|&byte| byte == 0xee));
        assert!(to[1].as_slice()[1024..].iter().all(|&byte| byte == 0xee));
        Ok(())
    }

    #[test]
    fn copy_handles_overlapping_segments_of_a_page() -> Result {
        for (from, to) in [(0, 64), (64, 0), (100, 103), (103, 100), (512, 512)] {
            let mut pages = [FilledPage::zeroed(Gfp::KERNEL)?];
            for (i, byte) in pages[0].as_mut_slice().iter_mut().enumerate() {
                *byte = (i % 251) as u8;
            }
            let src = table(&pages, &[(0, from, 2048)])?;
            let dst = table(&pages, &[(0, to, 2048)])?;

            // SAFETY: The tables have 2048 bytes, and nothing else uses them.
            let (segments, mut segments_mut) = unsafe {
                (
                    Segments::new(src.as_ptr(), iter(2048)),
                    SegmentsMut::new(dst.as_ptr(), iter(2048)),
                )
            };
            segments_mut.copy_from(segments)?;

            let to = to as usize..to as usize + 2048;
            for (i, &byte) in pages[0].as_slice().iter().enumerate() {
                let came_from = if to.contains(&i) {
                    i - to.start + from as usize
                } else {
                    i
                };
                assert_eq!(byte, (came_from % 251) as u8);
            }
        }
        Ok(())
    }

    #[test]
    fn filled_counts_bytes_written_in_order() -> Result {
        let pages = [
            FilledPage::zeroed(Gfp::KERNEL)?,
            FilledPage::zeroed(Gfp::KERNEL)?,
        ];
        let src = table(&pages, &[(0, 0, 2048)])?;
        let dst = table(&pages, &[(1, 0, 2048)])?;
        let piece = NonZeroU32::new(512).ok_or(EINVAL)?;
        let filled = Filled::new();
        // SAFETY: The tables have 2048 bytes, and nothing else uses them; `filled` counts those of
        // `dst`.
        let walks = || unsafe {
            (
                Segments::new(src.as_ptr(), iter(2048)),
                SegmentsMut::new_unfilled(dst.as_ptr(), iter(2048), &filled),
            )
        };

        // The first piece is skipped.
        let (_, mut to) = walks();
        to.next_segment(piece).ok_or(EINVAL)?;
        to.next_segment(piece)
            .ok_or(EINVAL)?
            .write_at(0, &[1; 512])?;
        assert_eq!(filled.len(), 0);

        // The same bytes count once.
        let (mut from, mut to) = walks();
        let mut first = to.next_segment(piece).ok_or(EINVAL)?;
        first.write_at(0, &[1; 100])?;
        first.write_at(0, &[1; 100])?;
        assert_eq!(filled.len(), 100);
        first.write_at(200, &[1; 312])?;
        assert_eq!(filled.len(), 100);
        first.reborrow().write_at(100, &[1; 412])?;
        assert_eq!(filled.len(), 512);
        assert_eq!(
            first.copy_from(from.next_segment(piece).ok_or(EINVAL)?),
            Ok(())
        );
        assert_eq!(filled.len(), 512);

        // The parts of a segment count as the segment.
        filled.reset();
        let (_, mut to) = walks();
        let mut rest = to.next_segment(piece).ok_or(EINVAL)?;
        let mut front = rest.split_to(100).ok_or(EINVAL)?;
        rest.write_at(0, &[1; 412])?;
        assert_eq!(filled.len(), 0);
        front.write_at(0, &[1; 100])?;
        assert_eq!(filled.len(), 100);
        rest.write_at(0, &[1; 412])?;
        assert_eq!(filled.len(), 512);

        // The rest, and then all bytes again.
        to.copy_from(from)?;
        assert_eq!(filled.len(), 2048);
        let (from, mut to) = walks();
        to.copy_from(from)?;
        assert_eq!(filled.len(), 2048);
        Ok(())
    }

    #[test]
    fn copy_rejects_different_lengths() -> Result {
        let pages = [
            FilledPage::zeroed(Gfp::KERNEL)?,
            FilledPage::zeroed(Gfp::KERNEL)?,
        ];
        let src = table(&pages, &[(0, 0, 1024)])?;
        let dst = table(&pages, &[(1, 0, 512)])?;

        // SAFETY: The tables have 1024 and 512 bytes, and nothing else uses them.
        let (segments, mut segments_mut) = unsafe {
            (
                Segments::new(src.as_ptr(), iter(1024)),
                SegmentsMut::new(dst.as_ptr(), iter(512)),
            )
        };
        assert_eq!(segments_mut.copy_from(segments), Err(EINVAL));
        Ok(())
    }
}
