// SPDX-License-Identifier: GPL-2.0

//! lmk: the scheme of Loop-AES.
//!
//! Sectors have 512 bytes, and there are usually 64 keys. The IV is a hash of a sector without
//! its first block, so a change in any later block changes the whole ciphertext. After decryption,
//! the hash is computed from the plaintext and XORed into the first block: in CBC mode the IV
//! affects only that block.
//!
//! - Version 1 has one key.
//! - Version 2 has 64 keys.
//! - Version 3 has one more key. Its first 16 bytes are hashed before the data.

use kernel::prelude::*;

use kscale::{
    block::bio::{
        Segment,
        SegmentMut,
        SECTOR_SIZE, //
    },
    crypto::{
        fips,
        md5::{
            self,
            Md5, //
        },
        skcipher::{
            Request,
            MAX_IV_SIZE, //
        }, //
    }, //
};

use super::{
    xor,
    Input,
    Iv,
    IvOps,
    Params,
    MIN_IV_SIZE, //
};

/// Length of a sector in bytes.
const SECTOR_LEN: usize = SECTOR_SIZE as usize;

/// Bytes at the start of a sector that are not hashed.
const NOT_HASHED: usize = 16;

/// The message length in the MD5 padding, in bits: the data and seven bytes of the sector number,
/// without the seed.
const MESSAGE_BITS: u32 = 4024;

/// Length of a seed in bytes.
const SEED_LEN: usize = md5::STATE_SIZE;

/// Returns the length of the seed in a key, in bytes. [`None`] if the key divides evenly between
/// the `n_keys` ciphers.
pub(super) fn seed_size(size_bytes: u32, n_keys: u32) -> Option<u32> {
    match size_bytes.checked_rem(n_keys) {
        None | Some(0) => None,
        Some(_) => Some(size_bytes / n_keys.saturating_add(1)),
    }
}

/// The lmk mode of a target.
pub(crate) struct Lmk {
    /// The hash state after the seed, if the key has one. Boxed: a move would leave a copy unwiped.
    start: KBox<Md5>,
    /// Offset of the seed in the key, if it has one.
    seed_start: Option<usize>,
    iv_size: usize,
}

impl Lmk {
    /// Returns [`EINVAL`] for sectors of another size, if FIPS mode forbids MD5, and for IVs
    /// and seeds of other lengths than in Loop-AES, for which dm-crypt would read out of bounds.
    pub(super) fn new(params: &Params<'_>) -> Result<Self> {
        if params.options.sector_size.get() != SECTOR_SIZE
            || fips::enabled()
            || params.iv_size > md5::STATE_SIZE
        {
            return Err(EINVAL);
        }
        let mut this = Self {
            start: KBox::new(Md5::new(), GFP_KERNEL)?,
            // After the cipher keys, as if each were as long as the seed.
            seed_start: (params.extra_len != 0)
                .then_some(params.n_keys.wrapping_mul(params.extra_len)),
            iv_size: params.iv_size.max(MIN_IV_SIZE),
        };
        this.set_key(params.key)?;
        Ok(this)
    }

    /// See [`IvGenerator::set_key()`](super::IvGenerator::set_key).
    pub(super) fn set_key(&mut self, key: &[u8]) -> Result {
        if let Some(start) = self.seed_start {
            let seed = key.get(start..).and_then(|rest| rest.get(..SEED_LEN));

            *self.start = Md5::new();
            self.start.update(seed.ok_or(EINVAL)?);
            self.start.update(&[0; md5::BLOCK_SIZE - SEED_LEN]);
        }
        Ok(())
    }

    /// Returns the IV of a sector with the plaintext `data`.
    fn iv(&self, sector: u64, data: &[u8; SECTOR_LEN]) -> Iv {
        let mut md5 = self.start.clone();
        let mut iv = [0; MAX_IV_SIZE];
        let mut end = [0; 16];
        // 56 bits of the sector number, followed by the first byte of the MD5 padding.
        let number = (sector & !(0xff << 56)) | (0x80 << 56);

        let (first, second) = end.split_at_mut(8);
        first.copy_from_slice(&number.to_le_bytes());
        second.copy_from_slice(&u64::from(MESSAGE_BITS).to_le_bytes());

        md5.update(data.get(NOT_HASHED..).unwrap_or_default());
        md5.update(&end);
        for (to, from) in iv.iter_mut().zip(md5.state()).take(self.iv_size) {
            *to = from;
        }
        iv
    }
}

/// The lmk mode of a bio.
pub(crate) struct LmkIv<'a> {
    mode: &'a Lmk,
    /// The IV of the next sector: zeros for a read.
    iv: Iv,
}

impl Lmk {
    /// Returns the operations for a bio.
    pub(crate) fn ops(&self) -> LmkIv<'_> {
        LmkIv {
            mode: self,
            iv: Iv::default(),
        }
    }
}

impl IvOps for LmkIv<'_> {
    #[inline]
    fn generate(&mut self, _request: &mut Request<'_>, _sector: u64) -> Result<Iv> {
        Ok(self.iv)
    }

    fn pre_encrypt(
        &mut self,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
    ) -> Result<Input> {
        let mut data = [0; SECTOR_LEN];

        // The submitter may modify its pages between hash and encryption, so the cipher reads the
        // copy.
        src.read_at(0, &mut data)?;
        dst.write_at(0, &data)?;
        self.iv = self.mode.iv(sector, &data);
        Ok(Input::Destination)
    }

    fn post_decrypt(&mut self, sector: u64, segment: &mut SegmentMut<'_>) -> Result {
        let mut data = [0; SECTOR_LEN];

        segment.as_segment().read_at(0, &mut data)?;
        let iv = self.mode.iv(sector, &data);
        let first = data.get_mut(..self.mode.iv_size).ok_or(EINVAL)?;
        xor(first, &iv);
        segment.write_at(0, first)
    }
}
