// SPDX-License-Identifier: GPL-2.0

//! elephant: the scheme of BitLocker before Windows 8.
//!
//! IVs are those of eboiv. Before encryption, a sector key is XORed into the data, and a
//! diffuser makes each bit depend on all others. The sector key is the byte offset, encrypted with
//! AES.
//!
//! The second half of the key is the AES key for the sector keys.

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::{
    block::bio::{
        BlkError,
        Segment,
        SegmentMut, //
    },
    crypto::{
        aes,
        secret::memzero_explicit,
        skcipher::Request, //
    }, //
};

use crate::format::skcipher::Ciphers;

use super::{
    diffuser,
    eboiv::{
        Eboiv,
        EboivIv, //
    },
    xor,
    Input,
    Iv,
    IvOps,
    Params, //
};

/// Maximum length in bytes of the AES key for the sector keys.
const MAX_KEY_LEN: u32 = 32;

/// Length of a sector key in bytes.
const SECTOR_KEY_LEN: usize = 2 * aes::BLOCK_SIZE;

/// Returns the length in bytes of the AES key for the sector keys, or [`EINVAL`] if it is too long.
pub(super) fn extra_key_len(size_bytes: u32) -> Result<u32> {
    match size_bytes / 2 {
        len if len > MAX_KEY_LEN => Err(EINVAL),
        len => Ok(len),
    }
}

/// The elephant mode of a target.
pub(crate) struct Elephant {
    eboiv: Eboiv,
    key: aes::EncKey,
    /// Offset of the second half of the key.
    key_start: usize,
}

impl Elephant {
    /// Returns [`EINVAL`] if the second half of the key is not a valid AES key.
    pub(super) fn new(params: &Params<'_>, eboiv: Eboiv) -> Result<Self> {
        let key_start = params
            .key
            .len()
            .checked_sub(params.extra_len)
            .ok_or(EINVAL)?;

        Ok(Self {
            eboiv,
            key: aes::EncKey::new(params.key.get(key_start..).ok_or(EINVAL)?)?,
            key_start,
        })
    }

    /// See [`IvGenerator::set_key()`](super::IvGenerator::set_key).
    pub(super) fn set_key(&mut self, key: &[u8]) -> Result {
        self.key.replace(key.get(self.key_start..).ok_or(EINVAL)?)
    }

    /// See [`Eboiv::ops()`].
    pub(crate) fn ops<'a>(
        &'a self,
        ciphers: &'a Ciphers,
        sector_size: NonZeroU32,
    ) -> Result<ElephantIv<'a>, BlkError> {
        Ok(ElephantIv {
            eboiv: self.eboiv.ops(ciphers, sector_size)?,
            mode: self,
        })
    }

    /// XORs the sector key into the data of the sector at a byte offset.
    fn add_sector_key(&self, offset: &[u8; 8], data: &mut [u8]) {
        let mut key = [0; SECTOR_KEY_LEN];
        let mut block = [0; aes::BLOCK_SIZE];

        if let Some(start) = block.first_chunk_mut() {
            *start = *offset;
        }
        for half in key.chunks_exact_mut(aes::BLOCK_SIZE) {
            half.copy_from_slice(&self.key.encrypt(&block));
            // The input for the second half of the sector key.
            if let Some(last) = block.last_mut() {
                *last = 0x80;
            }
        }
        for part in data.chunks_exact_mut(SECTOR_KEY_LEN) {
            xor(part, &key);
        }
        memzero_explicit(&mut key);
        memzero_explicit(&mut block);
    }
}

/// The elephant mode of a bio.
pub(crate) struct ElephantIv<'a> {
    eboiv: EboivIv<'a>,
    mode: &'a Elephant,
}

impl IvOps for ElephantIv<'_> {
    #[inline]
    fn generate(&mut self, request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        self.eboiv.generate(request, sector)
    }

    fn pre_encrypt(
        &mut self,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
    ) -> Result<Input> {
        let offset = self.eboiv.offset(sector);
        let data = src.read_uninit_at(0, self.eboiv.work_area()?)?;

        self.mode.add_sector_key(&offset, data);
        diffuser::encrypt(data);
        dst.write_at(0, data)?;
        Ok(Input::Destination)
    }

    fn post_decrypt(&mut self, sector: u64, segment: &mut SegmentMut<'_>) -> Result {
        let offset = self.eboiv.offset(sector);
        let data = segment
            .as_segment()
            .read_uninit_at(0, self.eboiv.work_area()?)?;

        diffuser::decrypt(data);
        self.mode.add_sector_key(&offset, data);
        segment.write_at(0, data)
    }
}
