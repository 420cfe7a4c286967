// SPDX-License-Identifier: GPL-2.0

//! Copies between segments and buffers.
//!
//! C code copies the bytes, with the page mapped only during the copy. There are no references to
//! them, as other tasks or devices may write to them at any time.
//!
//! For the same reason, no code that the Rust compiler sees may read or write the bytes. A data
//! race is undefined behaviour in Rust, and the compiler relies on that: it may replace a copy of a
//! copy by a second read of the page. A C helper does not avoid that, as
//! `CONFIG_RUST_INLINE_HELPERS` compiles it as Rust code. So every copy, also in `copy.rs`, is a
//! call of a function in `rust/mm/highmem.c`.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    slice, //
};

use crate::{
    bindings,
    mm::page::{
        FilledPage,
        Page, //
    }, //
};

use super::{
    Segment,
    SegmentMut, //
};

impl Segment<'_> {
    /// Copies bytes of the segment from `offset` on to `bytes`, until `bytes` is full.
    ///
    /// If a byte is written concurrently, the copy has its old or its new value. Later writes to
    /// the segment do not change `bytes`.
    ///
    /// Fails with [`EINVAL`], and copies nothing, if the segment is too short.
    ///
    /// Context: Any context. Never sleeps. C: `memcpy_from_page()` in `include/linux/highmem.h`.
    #[inline]
    pub fn read_at(&self, offset: usize, bytes: &mut [u8]) -> Result {
        let len = bytes.len();
        // SAFETY: Initialised bytes are valid as `MaybeUninit`, and only initialised values are
        // written to them.
        let bytes = unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), len) };
        self.read_uninit_at(offset, bytes).map(drop)
    }

    /// As [`Self::read_at()`], to uninitialised memory. Returns `bytes` as an initialised slice.
    ///
    /// Context: Any context. Never sleeps. C: `memcpy_from_page()` in `include/linux/highmem.h`.
    #[inline]
    pub fn read_uninit_at<'b>(
        &self,
        offset: usize,
        bytes: &'b mut [MaybeUninit<u8>],
    ) -> Result<&'b mut [u8]> {
        let (page, start) = self.place(offset, bytes.len())?;

        // SAFETY:
        // - `page` has `bytes.len()` readable bytes at `start`, see `place()`.
        // - `bytes` is valid for writes of its length, and not part of the segment: memory with a
        //   live reference is not lent as a segment.
        // - Other tasks or devices may write to the page. No access to the page is Rust code: the
        //   function is compiled from C, in its own object, so the Rust compiler only knows that it
        //   may write to `bytes`. In the kernel's C, a plain access that races returns some value
        //   that was written.
        unsafe {
            bindings::kscale_memcpy_from_page(bytes.as_mut_ptr().cast(), page, start, bytes.len());
        }
        // SAFETY: All bytes were written above, and they are borrowed as long as the result.
        Ok(unsafe { slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) })
    }

    /// Returns the page and the offset in it of `len` bytes from `offset` on, all in the segment.
    #[inline]
    fn place(&self, offset: usize, len: usize) -> Result<(*mut bindings::page, usize)> {
        // CAST: From 32 to 64 bits, both times.
        match offset.checked_add(len) {
            Some(end) if end <= self.len as usize => {
                // OVERFLOW: At most `PAGE_SIZE`, by the type invariants.
                Ok((
                    self.page.as_ptr(),
                    (self.offset as usize).wrapping_add(offset),
                ))
            }
            _ => Err(EINVAL),
        }
    }
}

impl SegmentMut<'_> {
    /// Copies `bytes` to the segment, from `offset` on.
    ///
    /// Fails with [`EINVAL`], and copies nothing, if the segment is too short.
    ///
    /// Context: Any context. Never sleeps. C: `memcpy_to_page()` in `include/linux/highmem.h`.
    #[inline]
    pub fn write_at(&mut self, offset: usize, bytes: &[u8]) -> Result {
        let (page, start) = self.0.place(offset, bytes.len())?;

        // SAFETY:
        // - `page` has `bytes.len()` bytes at `start`, see `place()`, which may be written, by the
        //   type invariants.
        // - `bytes` is valid for reads of its length, not part of the segment, and does not change,
        //   see `read_at()`.
        // - Other tasks or devices may read or write the page. No access to the page is Rust code,
        //   see `read_at()`. A concurrent writer is responsible for the resulting bytes.
        unsafe {
            bindings::kscale_memcpy_to_page(page, start, bytes.as_ptr().cast(), bytes.len());
        }
        if let Some(position) = self.1 {
            // CAST: Both are at most `PAGE_SIZE`, by the type invariants and `place()`.
            position.record(offset as u32, bytes.len() as u32);
        }
        Ok(())
    }

    /// Reborrows the segment, to use it more than once.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn reborrow(&mut self) -> SegmentMut<'_> {
        // INVARIANT: As `self`, which is borrowed while the new segment lives.
        SegmentMut(self.0, self.1)
    }
}

impl Page {
    /// Sets `len` bytes from `offset` on to 0, and returns them as a segment for C code to read and
    /// write, or returns [`None`] if they are not all in the page.
    ///
    /// The bytes of a [`FilledPage`] keep their values, see [`FilledPage::segment_mut()`].
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn zeroed_segment_mut(&mut self, offset: u32, len: u32) -> Option<SegmentMut<'_>> {
        // CAST: From 32 to 64 bits, twice.
        let end = offset.checked_add(len)? as usize;
        let bytes = self.as_uninit_slice_mut().get_mut(offset as usize..end)?;
        bytes.fill(MaybeUninit::new(0));
        // SAFETY: The bytes have values.
        unsafe { self.segment_mut_unchecked(offset, len) }
    }

    /// As [`FilledPage::segment_mut()`].
    ///
    /// # Safety
    ///
    /// The bytes must have been written since the page was allocated.
    #[inline]
    unsafe fn segment_mut_unchecked(&mut self, offset: u32, len: u32) -> Option<SegmentMut<'_>> {
        // CAST: From 32 to 64 bits.
        let end = offset.checked_add(len)? as usize;

        // INVARIANT: The bytes are in the page by the check below. The page is allocated, mapped
        // and not shared, by the invariants of `Page`, and borrowed while the segment lives.
        let segment = Segment {
            page: NonNull::new(self.as_ptr())?,
            offset,
            len,
            _memory: PhantomData,
        };
        (end <= PAGE_SIZE).then_some(SegmentMut(segment, None))
    }
}

impl FilledPage {
    /// Returns `len` bytes from `offset` on as a segment for C code to read and write, or [`None`]
    /// if they are not all in the page. C code only writes initialised bytes, so the page stays
    /// initialised.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn segment_mut(&mut self, offset: u32, len: u32) -> Option<SegmentMut<'_>> {
        // SAFETY: All bytes of the page were written, by the type invariants.
        unsafe { self.as_page_mut().segment_mut_unchecked(offset, len) }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_bio_bytes)]
mod tests {
    use super::*;

    use crate::{
        block::bio::{
            Buffer,
            Filled, //
        },
        mm::gfp::Gfp, //
    };

    /// Returns a page where the value of each byte depends on its position.
    fn numbered() -> Result<FilledPage> {
        let mut page = FilledPage::zeroed(Gfp::KERNEL)?;

        for (i, byte) in page.as_mut_slice().iter_mut().enumerate() {
            *byte = number(i);
        }
        Ok(page)
    }

    fn number(i: usize) -> u8 {
        (i % 251) as u8
    }

    #[test]
    fn read_starts_at_the_segment_offset() -> Result {
        let mut page = numbered()?;

        for (offset, len) in [(0, 4096), (512, 512), (3584, 512), (1, 2), (4096, 0)] {
            let segment = page.segment_mut(offset, len).ok_or(EINVAL)?;
            let mut bytes = KVec::zeroed(len as usize, GFP_KERNEL)?;

            segment.as_segment().read_at(0, &mut bytes)?;
            assert!(bytes
                .iter()
                .enumerate()
                .all(|(i, &byte)| byte == number(offset as usize + i)));
        }
        let segment = page.segment_mut(512, 512).ok_or(EINVAL)?;
        let mut last = [0; 2];
        segment.as_segment().read_at(510, &mut last)?;
        assert!(last == [number(1022), number(1023)]);
        Ok(())
    }

    #[test]
    fn segment_of_a_new_page_is_zeroed() -> Result {
        let mut page: Page = Page::alloc(Gfp::KERNEL)?;
        page.fill(0x5a);
        let mut bytes = [1; 64];
        let segment = page.zeroed_segment_mut(448, 64).ok_or(EINVAL)?;

        assert_eq!(segment.len(), 64);
        segment.as_segment().read_at(0, &mut bytes)?;
        assert_eq!(bytes, [0; 64]);
        // SAFETY: The page was filled above.
        let all = unsafe { page.assume_filled() }.as_slice();
        assert_eq!(all.iter().filter(|&&byte| byte == 0x5a).count(), 4096 - 64);
        for (offset, len) in [(4096, 1), (4033, 64), (1, u32::MAX)] {
            assert!(page.zeroed_segment_mut(offset, len).is_none());
        }
        Ok(())
    }

    /// Otherwise stale data could be read, and copied to a device.
    #[test]
    fn memory_is_read_as_far_as_it_was_written() -> Result {
        let filled = Filled::new();
        let mut buffer = Buffer::new(&[0x5a; 4096], 0)?;
        // SAFETY: `filled` counts these bytes.
        let mut back = unsafe { buffer.unfilled_segment_mut(4096, &filled) }?;
        let mut front = back.split_to(2048).ok_or(EINVAL)?;
        let lens = |front: &SegmentMut<'_>, back: &SegmentMut<'_>| {
            [front, back].map(|part| part.as_segment().len())
        };

        assert_eq!(lens(&front, &back), [0, 0]);
        assert_eq!(front.as_segment().read_at(0, &mut [0]), Err(EINVAL));
        assert_eq!(front.copy_from(back.as_segment()), Err(EINVAL));
        // Not from the start on.
        back.write_at(0, &[7; 512])?;
        assert_eq!(lens(&front, &back), [0, 0]);
        front.write_at(0, &[7; 512])?;
        assert_eq!(lens(&front, &back), [512, 0]);
        front.write_at(512, &[7; 1536])?;
        assert_eq!(lens(&front, &back), [2048, 0]);
        back.copy_from(front.as_segment())?;
        assert_eq!(lens(&front, &back), [2048, 2048]);
        Ok(())
    }

    #[test]
    fn write_changes_no_neighbouring_bytes() -> Result {
        let mut page = numbered()?;

        page.segment_mut(512, 512)
            .ok_or(EINVAL)?
            .write_at(8, &[0xee; 16])?;

        for (i, &byte) in page.as_slice().iter().enumerate() {
            let expected = if (520..536).contains(&i) {
                0xee
            } else {
                number(i)
            };
            assert_eq!(byte, expected);
        }
        Ok(())
    }

    #[test]
    fn access_beyond_the_segment_fails() -> Result {
        let mut page = numbered()?;
        let mut segment = page.segment_mut(512, 512).ok_or(EINVAL)?;

        for (offset, len) in [
            (0, 513),
            (512, 1),
            (513, 0),
            (usize::MAX, 1),
            (usize::MAX, 2),
        ] {
            let mut bytes = KVec::from_elem(7, len, GFP_KERNEL)?;

            assert_eq!(
                segment.as_segment().read_at(offset, &mut bytes),
                Err(EINVAL)
            );
            assert!(bytes.iter().all(|&byte| byte == 7));
            assert_eq!(segment.write_at(offset, &bytes), Err(EINVAL));
        }
        assert_eq!(segment.write_at(512, &[]), Ok(()));

        assert!(page
            .as_slice()
            .iter()
            .enumerate()
            .all(|(i, &byte)| byte == number(i)));
        Ok(())
    }

    #[test]
    fn access_beyond_the_page_fails() -> Result {
        let mut page = numbered()?;

        for (offset, len) in [
            (0, 4097),
            (4096, 1),
            (4095, 2),
            (u32::MAX, 1),
            (1, u32::MAX),
        ] {
            assert!(page.segment_mut(offset, len).is_none());
        }
        Ok(())
    }

    #[test]
    fn reborrowed_segment_shares_memory() -> Result {
        let mut page = numbered()?;
        let mut segment = page.segment_mut(512, 512).ok_or(EINVAL)?;
        let mut byte = [0];

        segment.reborrow().write_at(511, &[0xee])?;
        assert_eq!(segment.reborrow().len(), 512);
        segment.as_segment().read_at(511, &mut byte)?;
        assert_eq!(byte, [0xee]);
        Ok(())
    }

    #[test]
    fn split_segments_have_all_bytes_once() -> Result {
        let mut page = numbered()?;

        for len in [0, 1, 16, 511, 512] {
            let mut rest = page.segment_mut(512, 512).ok_or(EINVAL)?;
            assert!(rest.split_to(513).is_none() && rest.split_to(u32::MAX).is_none());
            let mut front = rest.split_to(len).ok_or(EINVAL)?;
            assert_eq!((front.len(), rest.len()), (len, 512 - len));

            for (segment, start) in [(&mut front, 512), (&mut rest, 512 + len as usize)] {
                let mut bytes = KVec::zeroed(segment.len() as usize, GFP_KERNEL)?;
                segment.as_segment().read_at(0, &mut bytes)?;
                assert!(bytes
                    .iter()
                    .enumerate()
                    .all(|(i, &byte)| byte == number(start + i)));
                let end = segment.len() as usize;
                assert_eq!(segment.write_at(end, &[0]), Err(EINVAL));
            }
        }
        Ok(())
    }
}
