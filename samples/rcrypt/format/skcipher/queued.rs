// SPDX-License-Identifier: GPL-2.0

//! Encryption of a bio with several requests in flight, for asynchronous ciphers.

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::{
    block::bio::{
        BlkError,
        BlkResult,
        Segment,
        SegmentMut, //
    },
    crypto::skcipher::Queue, //
};

use crate::iv::{
    Iv,
    SectorMode, //
};

use super::{
    Converter,
    Sectors,
    Work, //
};

impl Converter {
    /// Runs `work` with the only cipher, in a mode that handles each sector independently.
    #[cold]
    #[inline(never)]
    pub(super) fn convert_queued<'a>(
        &'a self,
        first_sector: u64,
        mode: SectorMode,
        work: impl Work<'a>,
    ) -> BlkResult {
        self.cipher(first_sector)?
            .queue(|queue| {
                work.run(&mut Queued {
                    converter: self,
                    queue,
                    mode,
                    sector: first_sector,
                })
                .map_err(|_| EIO)
            })
            .map_err(|_| BlkError::IOERR)
    }
}

/// A walk over the sectors of a bio that queues a request for each of them.
struct Queued<'q, 'a> {
    converter: &'a Converter,
    queue: &'q mut Queue<'a>,
    mode: SectorMode,
    /// Number of the next sector, in units of 512 bytes. Wraps, as in C.
    sector: u64,
}

impl Queued<'_, '_> {
    /// Returns the vector of the next sector, which has `len` contiguous bytes.
    fn next_iv(&mut self, len: u32) -> Result<Iv, BlkError> {
        let Converter {
            options, iv_size, ..
        } = self.converter;
        let sector = self.sector;

        if len != options.sector_size.get() {
            return Err(BlkError::IOERR);
        }
        self.sector = sector.wrapping_add(options.sectors());
        Ok(self.mode.generate(options.iv_sector(sector), *iv_size))
    }
}

impl<'a> Sectors<'a> for Queued<'_, 'a> {
    fn size(&self) -> NonZeroU32 {
        self.converter.options.sector_size
    }

    fn encrypt(&mut self, src: Segment<'a>, dst: SegmentMut<'a>) -> BlkResult {
        let iv = self.next_iv(src.len())?;
        let iv = iv.get(..self.converter.iv_size).unwrap_or_default();

        self.queue
            .encrypt(src, dst, iv)
            .map_err(|_| BlkError::IOERR)
    }

    fn decrypt(&mut self, data: SegmentMut<'a>) -> BlkResult {
        let iv = self.next_iv(data.len())?;
        let iv = iv.get(..self.converter.iv_size).unwrap_or_default();

        self.queue
            .decrypt_in_place(data, iv)
            .map_err(|_| BlkError::IOERR)
    }
}
