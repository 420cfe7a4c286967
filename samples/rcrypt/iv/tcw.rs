// SPDX-License-Identifier: GPL-2.0

//! tcw: what TrueCrypt did before version 4.1.
//!
//! The vector is a seed and the number of the sector. What was encrypted is whitened: eight bytes,
//! of another seed and the number, are added all over the sector. Both seeds are at the end of the
//! key. Sectors have 512 bytes.
//!
//! For what is encrypted so already: who may write to the device can tell equal sectors.

use kernel::prelude::*;

use kscale::{
    block::bio::{
        Segment,
        SegmentMut,
        SECTOR_SIZE, //
    },
    crypto::{
        secret::{
            memzero_explicit,
            Key, //
        },
        skcipher::{
            Request,
            MAX_IV_SIZE, //
        }, //
    },
    lib::crc32::crc32, //
};

use super::{
    xor,
    Input,
    Iv,
    Params,
    Walk,
    MIN_IV_SIZE, //
};

/// Bytes of a sector.
const SECTOR_LEN: usize = SECTOR_SIZE as usize;

/// Bytes of the seed of the whitening.
const WHITENING_LEN: usize = 16;

/// Bytes that are added all over a sector.
const MASK_LEN: usize = 8;

/// The longest vector: twice the number of the sector.
const MAX_LEN: usize = 16;

/// Returns how many bytes of a key are the seeds'.
pub(super) fn extra_key_len(iv_size: u32) -> u32 {
    // CAST: Both constants are small.
    iv_size
        .max(MIN_IV_SIZE as u32)
        .saturating_add(WHITENING_LEN as u32)
}

/// The mode, for one target.
pub(crate) struct Tcw {
    /// That of the vectors, and that of the whitening.
    seeds: Key,
    /// Where they begin in the key.
    seeds_start: usize,
    /// Bytes of the first one.
    iv_size: usize,
}

impl Tcw {
    /// Fails with [`EINVAL`] for other sectors, keys that are no longer than the seeds, and vectors
    /// of more than 16 bytes, for which dm-crypt would read beyond its memory.
    pub(crate) fn new(params: &Params<'_>) -> Result<Self> {
        let iv_size = params.iv_size.max(MIN_IV_SIZE);
        let seeds_start = params
            .key
            .len()
            .checked_sub(params.extra_len)
            .filter(|&start| start > 0)
            .ok_or(EINVAL)?;

        if params.options.sector_size.get() != SECTOR_SIZE || iv_size > MAX_LEN {
            return Err(EINVAL);
        }
        Ok(Self {
            seeds: Key::new(params.key.get(seeds_start..).ok_or(EINVAL)?)?,
            seeds_start,
            iv_size,
        })
    }

    /// See [`Generator::set_key()`](super::Generator::set_key).
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result {
        self.seeds
            .replace(key.get(self.seeds_start..).ok_or(EINVAL)?)
    }

    /// Returns the seed of the vectors, and that of the whitening.
    fn seeds(&self) -> (&[u8], &[u8]) {
        self.seeds
            .as_bytes()
            .split_at_checked(self.iv_size)
            .unwrap_or_default()
    }

    /// Returns what is added to every vector: all of that of sector 0. It is a part of the key, see
    /// [`Walk::iv_seed()`].
    #[inline]
    pub(crate) fn seed(&self) -> &[u8] {
        self.seeds().0
    }

    /// Returns the vector of a sector, but for [`Self::seed()`].
    pub(crate) fn iv(&self, sector: u64) -> Iv {
        let mut iv = [0; MAX_IV_SIZE];

        for part in iv.chunks_mut(size_of::<u64>()) {
            xor(part, &sector.to_le_bytes());
        }
        iv
    }

    /// Adds the mask of a sector to all of it, which also takes it away again.
    pub(crate) fn whiten(&self, sector: u64, segment: &mut SegmentMut<'_>) -> Result {
        let mut mask = self.mask(sector);
        let mut data = [0; SECTOR_LEN];

        segment.as_segment().read_at(0, &mut data)?;
        for part in data.chunks_exact_mut(MASK_LEN) {
            xor(part, &mask);
        }
        memzero_explicit(&mut mask);
        segment.write_at(0, &data)
    }

    /// Returns what is added to a sector.
    fn mask(&self, sector: u64) -> [u8; MASK_LEN] {
        let number = sector.to_le_bytes();
        let mut bytes = [0; WHITENING_LEN];
        let mut mask = [0; MASK_LEN];

        xor(&mut bytes, self.seeds().1);
        for half in bytes.chunks_exact_mut(number.len()) {
            xor(half, &number);
        }
        // In place, as who knows the sum of a word knows the word.
        for word in bytes.chunks_exact_mut(size_of::<u32>()) {
            let sum = crc32(0, word);
            word.copy_from_slice(&sum.to_le_bytes());
        }
        // The first and the last of the four, and behind it the two between.
        let (first, second) = bytes.split_at(MASK_LEN);
        xor(&mut mask, first);
        for (to, from) in mask.chunks_exact_mut(4).zip(second.rchunks_exact(4)) {
            xor(to, from);
        }
        memzero_explicit(&mut bytes);
        mask
    }
}

impl Walk for &Tcw {
    fn before_encrypt(
        &mut self,
        _request: &mut Request<'_>,
        sector: u64,
        _src: Segment<'_>,
        _dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)> {
        Ok((self.iv(sector), Input::Source))
    }

    #[inline]
    fn iv_seed(&self) -> Option<&[u8]> {
        Some(self.seed())
    }

    fn after_encrypt(&mut self, sector: u64, dst: &mut SegmentMut<'_>) -> Result {
        self.whiten(sector, dst)
    }

    fn before_decrypt(
        &mut self,
        _request: &mut Request<'_>,
        sector: u64,
        data: &mut SegmentMut<'_>,
    ) -> Result<Iv> {
        self.whiten(sector, data)?;
        Ok(self.iv(sector))
    }
}
