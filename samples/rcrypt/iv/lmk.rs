// SPDX-License-Identifier: GPL-2.0

//! lmk: what Loop-AES does.
//!
//! Sectors have 512 bytes, and there are usually 64 keys. The vector is a hash of all but the first
//! block of a sector, so equal sectors differ from the first byte on that they differ in. On the
//! way back that hash is only known after decryption; as in CBC the vector is added to the first
//! block and to nothing else, it can still be done then.
//!
//! - Version 1 has one key.
//! - Version 2 has 64.
//! - Version 3 has one more, of which the first 16 bytes are hashed before the data.

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
    Params,
    Walk,
    MIN_IV_SIZE, //
};

/// Bytes of a sector.
const SECTOR_LEN: usize = SECTOR_SIZE as usize;

/// Bytes at the start of a sector that are not hashed.
const NOT_HASHED: usize = 16;

/// What MD5 would put at the end of a message of so many bits: the data and seven bytes of the
/// sector's number, but not the seed.
const MESSAGE_BITS: u32 = 4024;

/// Bytes of a seed.
const SEED_LEN: usize = md5::STATE_SIZE;

/// Returns the size of the part of a key that is for the seed, in bytes. There is none if the
/// `n_keys` ciphers can share all of the key.
pub(super) fn seed_size(size_bytes: u32, n_keys: u32) -> Option<u32> {
    match size_bytes.checked_rem(n_keys) {
        None | Some(0) => None,
        Some(_) => Some(size_bytes / n_keys.saturating_add(1)),
    }
}

/// The mode, for one target.
pub(crate) struct Lmk {
    /// The hash of the seed, if there is one. Not to be moved, as nobody would wipe where it was.
    start: KBox<Md5>,
    /// Where the seed is in the key.
    seed_start: Option<usize>,
    iv_size: usize,
}

impl Lmk {
    /// Fails with [`EINVAL`] for other sectors, for vectors and seeds that are not those of Loop-AES
    /// and that dm-crypt would read beyond its memory for, and if MD5 is not allowed.
    pub(super) fn new(params: &Params<'_>) -> Result<Self> {
        if params.options.sector_size.get() != SECTOR_SIZE
            || fips::enabled()
            || params.iv_size > md5::STATE_SIZE
        {
            return Err(EINVAL);
        }
        let mut this = Self {
            start: KBox::new(Md5::new(), GFP_KERNEL)?,
            // After the keys, as if each were as long as the seed.
            seed_start: (params.extra_len != 0)
                .then_some(params.n_keys.wrapping_mul(params.extra_len)),
            iv_size: params.iv_size.max(MIN_IV_SIZE),
        };
        this.set_key(params.key)?;
        Ok(this)
    }

    /// See [`Generator::set_key()`](super::Generator::set_key).
    pub(super) fn set_key(&mut self, key: &[u8]) -> Result {
        if let Some(start) = self.seed_start {
            let seed = key.get(start..).and_then(|rest| rest.get(..SEED_LEN));

            *self.start = Md5::new();
            self.start.update(seed.ok_or(EINVAL)?);
            self.start.update(&[0; md5::BLOCK_SIZE - SEED_LEN]);
        }
        Ok(())
    }

    /// Returns the vector of a sector with that plaintext.
    fn iv(&self, sector: u64, data: &[u8; SECTOR_LEN]) -> Iv {
        let mut md5 = self.start.clone();
        let mut iv = [0; MAX_IV_SIZE];
        let mut end = [0; 16];
        // Of the number, 56 bits count. The rest is the end of an MD5 message.
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

impl Walk for &Lmk {
    fn before_encrypt(
        &mut self,
        _request: &mut Request<'_>,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)> {
        let mut data = [0; SECTOR_LEN];

        // Whoever writes to the data meanwhile must not come between hash and cipher, so what is
        // encrypted is the copy.
        src.read_at(0, &mut data)?;
        dst.write_at(0, &data)?;
        Ok((self.iv(sector, &data), Input::Destination))
    }

    fn before_decrypt(
        &mut self,
        _request: &mut Request<'_>,
        _sector: u64,
        _data: &mut SegmentMut<'_>,
    ) -> Result<Iv> {
        Ok([0; MAX_IV_SIZE])
    }

    fn after_decrypt(&mut self, sector: u64, segment: &mut SegmentMut<'_>) -> Result {
        let mut data = [0; SECTOR_LEN];

        segment.as_segment().read_at(0, &mut data)?;
        let iv = self.iv(sector, &data);
        let first = data.get_mut(..self.iv_size).ok_or(EINVAL)?;
        xor(first, &iv);
        segment.write_at(0, first)
    }
}
