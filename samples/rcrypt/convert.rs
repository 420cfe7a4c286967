// SPDX-License-Identifier: GPL-2.0

//! One bio through the cipher, sector by sector.

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult,
            Segment,
            SegmentMut,
            Segments,
            SegmentsMut, //
        },
        dm::CtrError, //
    },
    crypto::{
        secret::{
            memzero_explicit,
            Key, //
        },
        skcipher::{
            Request,
            Skcipher, //
        }, //
    }, //
};

use crate::{
    cipher::CipherSpec,
    integrity::Layout,
    iv::{
        xor,
        Generator,
        Input,
        KeptVectors,
        Mode,
        NewVectors,
        Params,
        SectorMode,
        Walk,
        MIN_IV_SIZE, //
    },
    options::Options,
    table::KeyLayout, //
};

#[cfg(kscale_kunit)]
mod answers;
mod queued;
mod sectors;

use self::sectors::{
    Decrypt,
    Encrypt,
    Sectors,
    Work, //
};

/// Everything that decides what a sector looks like on the device.
///
/// All that was made of the key is in here.
pub(crate) struct Converter {
    /// A power of two of them. Sector `n` uses number `n` modulo their count.
    ciphers: KVec<Skcipher>,
    /// Bytes that each of them takes for a vector, 0 for none.
    iv_size: usize,
    iv: Generator,
    key_layout: KeyLayout,
    options: Options,
}

impl Converter {
    /// Allocates the ciphers and gives each its part of the key, which has `key_size_bytes`.
    ///
    /// Fails with dm-crypt's messages.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<Key>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);
        let mut ciphers = KVec::new();
        let cipher = allocate(spec)?;

        let (iv_size, block_size) = (cipher.iv_size(), cipher.block_size());
        let mode = match (iv_size, spec.iv_mode) {
            (0, None) => NO_IV,
            (0, Some(_)) => {
                pr_warn!("Selected cipher does not support IVs\n");
                NO_IV
            }
            // dm-crypt would use whatever is in memory.
            (_, None) => return Err(CtrError::invalid(c"IV mechanism required")),
            (_, Some(name)) => {
                Mode::from_name(name).ok_or(CtrError::invalid(c"Invalid IV mode"))?
            }
        };
        // CAST: Neither is large.
        let mut key_layout = mode.key_layout(key_size_bytes, spec.n_keys as u32, iv_size as u32)?;
        key_layout.mac_size_bytes = options.integrity_key_size.unwrap_or(0);

        let key = key().map_err(bad_key)?;
        if key.as_bytes().len() < spec.n_keys && spec.n_keys > 1 {
            // Not worth allocating as many ciphers.
            return Err(bad_key(EINVAL));
        }
        ciphers.push(cipher, GFP_KERNEL)?;
        while ciphers.len() < spec.n_keys {
            ciphers.push(allocate(spec)?, GFP_KERNEL)?;
        }
        // CAST: From 32 to 64 bits.
        let extra_len = key_layout.extra_size_bytes as usize;
        set_keys(&mut ciphers, extra_len, &key).map_err(bad_key)?;

        let mut iv = mode.generator(&Params {
            key: key.as_bytes(),
            extra_len,
            n_keys: spec.n_keys,
            iv_size,
            block_size,
            options: &options,
        })?;
        if let [cipher] = &*ciphers {
            if cipher.is_async() {
                iv = iv.queued();
            }
        }
        Ok(Self {
            ciphers,
            iv_size,
            iv,
            key_layout,
            options,
        })
    }

    /// Replaces the key by one of the same length. Allocates nothing.
    ///
    /// After a failure nothing is to be encrypted until this succeeds.
    pub(crate) fn set_key(&mut self, key: &Key) -> Result {
        // CAST: From 32 to 64 bits.
        let extra_len = self.key_layout.extra_size_bytes as usize;

        set_keys(&mut self.ciphers, extra_len, key)?;
        self.iv.set_key(key.as_bytes())
    }

    /// Returns what the key consists of.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        self.key_layout
    }

    /// Encrypts `src` into `dst`. `first_sector` is what the IV of the first sector is made of.
    ///
    /// Fails with [`BlkError::IOERR`] if a sector is not in one piece of memory, or the cipher
    /// refuses it, and with [`BlkError::RESOURCE`] if the mode needs memory, there is none, and the
    /// caller must not sleep.
    ///
    /// Context: Task or softirq. In a task it may sleep.
    pub(crate) fn encrypt(
        &self,
        first_sector: u64,
        src: Segments<'_>,
        dst: SegmentsMut<'_>,
    ) -> BlkResult {
        self.convert(first_sector, Encrypt { src, dst })
    }

    /// Decrypts `data` in place. Otherwise as [`Converter::encrypt()`].
    pub(crate) fn decrypt(&self, first_sector: u64, data: SegmentsMut<'_>) -> BlkResult {
        self.convert(first_sector, Decrypt { data })
    }

    /// As [`Converter::encrypt()`], with new random vectors, which go to `tags`.
    pub(crate) fn encrypt_with_new_vectors(
        &self,
        first_sector: u64,
        src: Segments<'_>,
        dst: SegmentsMut<'_>,
        tags: &mut [u8],
        layout: Layout,
    ) -> BlkResult {
        self.convert_by(
            first_sector,
            NewVectors::new(tags, layout),
            Encrypt { src, dst },
        )
    }

    /// As [`Converter::decrypt()`], with the vectors that are in `tags`.
    pub(crate) fn decrypt_with_vectors(
        &self,
        first_sector: u64,
        data: SegmentsMut<'_>,
        tags: &[u8],
        layout: Layout,
    ) -> BlkResult {
        self.convert_by(
            first_sector,
            KeptVectors::new(tags, layout),
            Decrypt { data },
        )
    }

    /// Returns the length of the vectors that are kept beside the sectors in bytes, if they are.
    pub(crate) fn kept_iv_size(&self) -> Option<usize> {
        match self.iv {
            Generator::Random => Some(self.iv_size.max(MIN_IV_SIZE)),
            _ => None,
        }
    }

    /// Returns whether a task may have to wait: for memory that the mode or a cipher needs for each
    /// bio, or for a cipher that finishes later.
    pub(crate) fn may_sleep(&self) -> bool {
        matches!(self.iv, Generator::Eboiv(_) | Generator::Elephant(_))
            || self.ciphers.iter().any(Skcipher::may_sleep)
    }

    /// Does `work` in the mode of this converter.
    ///
    /// There is code of its own for each mode, so that it is asked for once per bio.
    #[inline]
    fn convert<'a>(&'a self, first_sector: u64, work: impl Work<'a>) -> BlkResult {
        let first = self.ciphers.first().filter(|_| self.ciphers.len() > 1);

        match &self.iv {
            Generator::Sector(mode) => self.convert_by(first_sector, mode.walk(self.iv_size), work),
            Generator::Queued(mode) => self.convert_queued(first_sector, *mode, work),
            Generator::Eboiv(mode) => self.convert_by(first_sector, mode.walk(first)?, work),
            Generator::Elephant(mode) => self.convert_by(first_sector, mode.walk(first)?, work),
            Generator::Lmk(mode) => self.convert_by(first_sector, mode, work),
            Generator::Tcw(mode) => self.convert_by(first_sector, mode, work),
            // That is for those who have tags.
            Generator::Random => Err(BlkError::IOERR),
        }
    }

    /// Never inlined, so that what the other modes have on the stack does not add up.
    #[inline(never)]
    fn convert_by<'a, W: Walk>(
        &'a self,
        first_sector: u64,
        walk: W,
        work: impl Work<'a>,
    ) -> BlkResult {
        // Made where it stays: it is big.
        let mut request = self.cipher(first_sector)?.request();

        work.run(&mut Cursor {
            converter: self,
            request: &mut request,
            walk,
            sector: first_sector,
        })
    }

    /// Returns the cipher of a sector.
    fn cipher(&self, sector: u64) -> Result<&Skcipher, BlkError> {
        // CAST: Only as many low bits are used as it takes to number the ciphers.
        let mask = self.ciphers.len().wrapping_sub(1);

        self.ciphers
            .get(sector as usize & mask)
            .ok_or(BlkError::IOERR)
    }
}

/// Gives each cipher its part of the key, of which `extra_len` bytes are not for them.
fn set_keys(ciphers: &mut [Skcipher], extra_len: usize, key: &Key) -> Result {
    if cfg!(kscale_mutant = "no_cipher") {
        return Ok(());
    }
    let mut rest = key.as_bytes();
    let part_len = rest
        .len()
        .checked_sub(extra_len)
        .and_then(|len| len.checked_div(ciphers.len()))
        .ok_or(EINVAL)?;

    for cipher in ciphers {
        let (part, others) = rest.split_at_checked(part_len).unwrap_or_default();
        cipher.set_key(part)?;
        rest = others;
    }
    Ok(())
}

/// What there is of a mode if the cipher takes no vector.
const NO_IV: Mode = Mode::Sector(SectorMode::Null);

/// Allocates a cipher without a key.
fn allocate(spec: &CipherSpec<'_>) -> Result<Skcipher, CtrError> {
    let name: &CStr = if cfg!(kscale_mutant = "no_cipher") {
        c"ecb(cipher_null)"
    } else {
        &spec.api_name
    };

    Skcipher::new(name).map_err(|error| CtrError::new(c"Error allocating crypto tfm", error))
}

/// Walks the sectors of a bio. One request serves them all, so that a sector costs little more
/// than its IV and its place in memory.
struct Cursor<'a, 'r, W> {
    converter: &'a Converter,
    request: &'r mut Request<'a>,
    walk: W,
    /// The number of the next sector, in units of 512 bytes. Wraps, as in C.
    sector: u64,
}

impl<W: Walk> Cursor<'_, '_, W> {
    /// Prepares for the next sector, of which `len` bytes are in one piece, and returns what its IV
    /// is made of.
    #[inline]
    fn next(&mut self, len: u32) -> Result<u64, BlkError> {
        let Converter {
            ciphers, options, ..
        } = self.converter;
        let sector = self.sector;

        if len != options.sector_size.get() {
            return Err(BlkError::IOERR);
        }
        if ciphers.len() > 1 {
            *self.request = self.converter.cipher(sector)?.request();
        }
        self.sector = sector.wrapping_add(options.sectors());

        Ok(options.iv_sector(sector))
    }
}

impl<'a, W: Walk> Sectors<'a> for Cursor<'a, '_, W> {
    #[inline]
    fn size(&self) -> NonZeroU32 {
        self.converter.options.sector_size
    }

    #[inline]
    fn encrypt(&mut self, src: Segment<'a>, mut dst: SegmentMut<'a>) -> BlkResult {
        let sector = self.next(src.len())?;
        let (mut vector, input) = self
            .walk
            .before_encrypt(self.request, sector, src, &mut dst)
            .map_err(|_| BlkError::IOERR)?;
        if let Some(seed) = self.walk.iv_seed() {
            xor(&mut vector, seed);
        }
        let iv = vector.get(..self.converter.iv_size).unwrap_or_default();

        let result = match input {
            Input::Source => self.request.encrypt(src, dst.reborrow(), iv),
            Input::Destination => self.request.encrypt_in_place(dst.reborrow(), iv),
        };
        if self.walk.iv_seed().is_some() {
            memzero_explicit(&mut vector);
        }
        result
            .and_then(|()| self.walk.after_encrypt(sector, &mut dst))
            .map_err(|_| BlkError::IOERR)
    }

    #[inline]
    fn decrypt(&mut self, mut data: SegmentMut<'a>) -> BlkResult {
        let sector = self.next(data.len())?;
        let mut vector = self
            .walk
            .before_decrypt(self.request, sector, &mut data)
            .map_err(|_| BlkError::IOERR)?;
        if let Some(seed) = self.walk.iv_seed() {
            xor(&mut vector, seed);
        }
        let iv = vector.get(..self.converter.iv_size).unwrap_or_default();

        let result = self.request.decrypt_in_place(data.reborrow(), iv);
        if self.walk.iv_seed().is_some() {
            memzero_explicit(&mut vector);
        }
        result
            .and_then(|()| self.walk.after_decrypt(sector, &mut data))
            .map_err(|_| BlkError::IOERR)
    }
}
