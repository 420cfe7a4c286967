// SPDX-License-Identifier: GPL-2.0

//! Operations on the sectors of a bio.

use core::num::NonZeroU32;

use kscale::block::bio::{
    BlkError,
    BlkResult,
    Segment,
    SegmentMut,
    Segments,
    SegmentsMut, //
};

/// An operation on a whole bio.
pub(super) trait Work<'a> {
    fn run(self, sectors: &mut impl Sectors<'a>) -> BlkResult;
}

/// An implementation that processes a bio sector by sector.
pub(super) trait Sectors<'a> {
    /// Returns the size of a sector in bytes.
    fn size(&self) -> NonZeroU32;

    /// Encrypts the next sector.
    fn encrypt(&mut self, src: Segment<'a>, dst: SegmentMut<'a>) -> BlkResult;

    /// Decrypts the next sector in place.
    fn decrypt(&mut self, data: SegmentMut<'a>) -> BlkResult;
}

/// The operation of [`Converter::encrypt()`](super::Converter::encrypt).
pub(super) struct Encrypt<'a> {
    pub(super) src: Segments<'a>,
    pub(super) dst: SegmentsMut<'a>,
}

impl<'a> Work<'a> for Encrypt<'a> {
    #[inline]
    fn run(mut self, sectors: &mut impl Sectors<'a>) -> BlkResult {
        let size = sectors.size();

        while let Some(dst) = self.dst.next_segment(size) {
            let src = self.src.next_segment(size).ok_or(BlkError::IOERR)?;
            sectors.encrypt(src, dst)?;
        }
        match self.src.remaining_bytes() {
            0 => Ok(()),
            _ => Err(BlkError::IOERR),
        }
    }
}

/// The operation of [`Converter::decrypt()`](super::Converter::decrypt).
pub(super) struct Decrypt<'a> {
    pub(super) data: SegmentsMut<'a>,
}

impl<'a> Work<'a> for Decrypt<'a> {
    #[inline]
    fn run(mut self, sectors: &mut impl Sectors<'a>) -> BlkResult {
        let size = sectors.size();

        while let Some(data) = self.data.next_segment(size) {
            sectors.decrypt(data)?;
        }
        Ok(())
    }
}
