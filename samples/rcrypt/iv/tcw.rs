// SPDX-License-Identifier: GPL-2.0

//! tcw: the scheme of TrueCrypt before version 4.1.
//!
//! The IV is a seed XORed with the sector number. The ciphertext is whitened: an eight-byte
//! mask from another seed and the sector number is XORed over the sector. Both seeds are at the end
//! of the key. Sectors have 512 bytes.
//!
//! Only for compatibility with existing volumes: an attacker who can write to the device can detect
//! equal sectors.

use kernel::prelude::*;

use kscale::{
    block::bio::{
        SegmentMut,
        SECTOR_SIZE, //
    },
    crypto::{
        secret::{
            memzero_explicit,
            SecretBytes, //
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
    Iv,
    IvOps,
    Params,
    MIN_IV_SIZE, //
};

/// Length of a sector in bytes.
const SECTOR_LEN: usize = SECTOR_SIZE as usize;

/// Length of the whitening seed in bytes.
const WHITENING_LEN: usize = 16;

/// Length of the mask in bytes.
const MASK_LEN: usize = 8;

/// Maximum length of an IV: two sector numbers.
const MAX_LEN: usize = 16;

/// Returns the length of both seeds in the key, in bytes.
pub(super) fn extra_key_len(iv_size: u32) -> u32 {
    // CAST: Both constants are small.
    iv_size
        .max(MIN_IV_SIZE as u32)
        .saturating_add(WHITENING_LEN as u32)
}

/// The tcw mode of a target.
pub(crate) struct Tcw {
    /// The IV seed, followed by the whitening seed.
    seeds: SecretBytes,
    /// Offset of the seeds in the key.
    seeds_start: usize,
    /// Length of the IV seed in bytes.
    iv_size: usize,
}

impl Tcw {
    /// Returns [`EINVAL`] for sectors of another size, for keys no longer than the seeds, and for
    /// IVs longer than 16 bytes, for which dm-crypt would read out of bounds.
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
            seeds: SecretBytes::new(params.key.get(seeds_start..).ok_or(EINVAL)?)?,
            seeds_start,
            iv_size,
        })
    }

    /// See [`IvGenerator::set_key()`](super::IvGenerator::set_key).
    pub(crate) fn set_key(&mut self, key: &[u8]) -> Result {
        self.seeds
            .replace(key.get(self.seeds_start..).ok_or(EINVAL)?)
    }

    /// Returns the IV seed and the whitening seed.
    fn seeds(&self) -> (&[u8], &[u8]) {
        self.seeds
            .as_bytes()
            .split_at_checked(self.iv_size)
            .unwrap_or_default()
    }

    /// Returns the IV seed, the IV of sector 0. It is a part of the key, see
    /// [`IvOps::seed()`].
    #[inline]
    pub(crate) fn seed(&self) -> &[u8] {
        self.seeds().0
    }

    /// Returns the IV of a sector, without [`Self::seed()`].
    pub(crate) fn iv(&self, sector: u64) -> Iv {
        let mut iv = [0; MAX_IV_SIZE];

        for part in iv.chunks_mut(size_of::<u64>()) {
            xor(part, &sector.to_le_bytes());
        }
        iv
    }

    /// XORs the mask of a sector over its data. A second call reverts the first.
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

    /// Returns the mask of a sector.
    fn mask(&self, sector: u64) -> [u8; MASK_LEN] {
        let number = sector.to_le_bytes();
        let mut bytes = [0; WHITENING_LEN];
        let mut mask = [0; MASK_LEN];

        xor(&mut bytes, self.seeds().1);
        for half in bytes.chunks_exact_mut(number.len()) {
            xor(half, &number);
        }
        // In place: the CRC of a word reveals the word, so the CRCs are wiped too.
        for word in bytes.chunks_exact_mut(size_of::<u32>()) {
            let sum = crc32(0, word);
            word.copy_from_slice(&sum.to_le_bytes());
        }
        // The mask is word 0 XOR word 3, then word 1 XOR word 2.
        let (first, second) = bytes.split_at(MASK_LEN);
        xor(&mut mask, first);
        for (to, from) in mask.chunks_exact_mut(4).zip(second.rchunks_exact(4)) {
            xor(to, from);
        }
        memzero_explicit(&mut bytes);
        mask
    }
}

impl IvOps for &Tcw {
    #[inline]
    fn generate(&mut self, _request: &mut Request<'_>, sector: u64) -> Result<Iv> {
        Ok(self.iv(sector))
    }

    #[inline]
    fn seed(&self) -> Option<&[u8]> {
        Some(Tcw::seed(self))
    }

    fn post_encrypt(&mut self, sector: u64, dst: &mut SegmentMut<'_>) -> Result {
        self.whiten(sector, dst)
    }

    fn pre_decrypt(&mut self, sector: u64, data: &mut SegmentMut<'_>) -> Result {
        self.whiten(sector, data)
    }
}
