// SPDX-License-Identifier: GPL-2.0

//! Encryption and decryption of a bio, sector by sector.

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
            SecretBytes, //
        },
        skcipher::{
            Request,
            Skcipher, //
        }, //
    }, //
};

use crate::{
    cipher_spec::CipherSpec,
    format::tuple::Layout,
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

/// The ciphers, the IV generator and the options of a target.
///
/// All data derived from the key is stored here.
pub(crate) struct Converter {
    /// The number of ciphers is a power of two. Sector `n` uses cipher `n` modulo that number.
    ciphers: KVec<Skcipher>,
    /// Length of the vector that each cipher takes, in bytes; 0 if it takes none.
    iv_size: usize,
    iv: Generator,
    key_layout: KeyLayout,
    options: Options,
}

impl Converter {
    /// Allocates the ciphers and sets their keys, from a key of `key_size_bytes`.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
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
            // dm-crypt uses uninitialised memory here.
            (_, None) => return Err(CtrError::invalid(c"IV mechanism required")),
            (_, Some(name)) => {
                Mode::from_name(name).ok_or(CtrError::invalid(c"Invalid IV mode"))?
            }
        };
        // CAST: Both numbers are small.
        let mut key_layout = mode.key_layout(key_size_bytes, spec.n_keys as u32, iv_size as u32)?;
        key_layout.mac_size_bytes = options.integrity_key_size.unwrap_or(0);

        let key = key().map_err(bad_key)?;
        if key.as_bytes().len() < spec.n_keys && spec.n_keys > 1 {
            // The key is too short for `n_keys` ciphers: do not allocate them.
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

    /// Replaces the key by another key of the same length. Allocates no memory of its own.
    ///
    /// After an error the caller must not encrypt until a call succeeds.
    pub(crate) fn set_key(&mut self, key: &SecretBytes) -> Result {
        // CAST: From 32 to 64 bits.
        let extra_len = self.key_layout.extra_size_bytes as usize;

        set_keys(&mut self.ciphers, extra_len, key)?;
        self.iv.set_key(key.as_bytes())
    }

    /// Returns the parts of the key.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        self.key_layout
    }

    /// Encrypts `src` into `dst`. The IV of the first sector is generated from `first_sector`.
    ///
    /// Returns [`BlkError::IOERR`] if a sector is not contiguous in memory or the cipher fails.
    /// Returns [`BlkError::RESOURCE`] if the mode fails to allocate memory in atomic context.
    ///
    /// Context: Process or softirq context. May sleep in process context.
    pub(crate) fn encrypt(
        &self,
        first_sector: u64,
        src: Segments<'_>,
        dst: SegmentsMut<'_>,
    ) -> BlkResult {
        self.convert(first_sector, Encrypt { src, dst })
    }

    /// As [`Converter::encrypt()`], but decrypts `data` in place.
    pub(crate) fn decrypt(&self, first_sector: u64, data: SegmentsMut<'_>) -> BlkResult {
        self.convert(first_sector, Decrypt { data })
    }

    /// As [`Converter::encrypt()`], with new random vectors, stored in `tags`.
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

    /// As [`Converter::decrypt()`], with the vectors in `tags`.
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

    /// Returns the length in bytes of the vectors that the device stores, or [`None`] if it stores
    /// none.
    pub(crate) fn kept_iv_size(&self) -> Option<usize> {
        match self.iv {
            Generator::Random => Some(self.iv_size.max(MIN_IV_SIZE)),
            _ => None,
        }
    }

    /// Returns whether encryption may sleep in process context: the mode or a cipher allocates
    /// memory for each bio, or the cipher is asynchronous.
    pub(crate) fn may_sleep(&self) -> bool {
        matches!(self.iv, Generator::Eboiv(_) | Generator::Elephant(_))
            || self.ciphers.iter().any(Skcipher::may_sleep)
    }

    /// Runs `work` in the mode of this converter.
    ///
    /// Each mode has its own monomorphised code, so the mode is matched once per bio.
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
            // Random vectors need tags: see `encrypt_with_new_vectors()`.
            Generator::Random => Err(BlkError::IOERR),
        }
    }

    /// Runs `work` with the vectors of `walk`.
    ///
    /// Never inlined, so that the stack frames of the modes do not add up.
    #[inline(never)]
    fn convert_by<'a, W: Walk>(
        &'a self,
        first_sector: u64,
        walk: W,
        work: impl Work<'a>,
    ) -> BlkResult {
        // Built in place, because a request is large.
        let mut request = self.cipher(first_sector)?.request();

        work.run(&mut Cursor {
            converter: self,
            request: &mut request,
            walk,
            sector: first_sector,
        })
    }

    /// Returns the cipher for `sector`.
    fn cipher(&self, sector: u64) -> Result<&Skcipher, BlkError> {
        // CAST: The mask keeps only the low bits that select a cipher.
        let mask = self.ciphers.len().wrapping_sub(1);

        self.ciphers
            .get(sector as usize & mask)
            .ok_or(BlkError::IOERR)
    }
}

/// Sets the key of each cipher. The last `extra_len` bytes of `key` are not part of the cipher
/// keys.
fn set_keys(ciphers: &mut [Skcipher], extra_len: usize, key: &SecretBytes) -> Result {
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

/// The IV mode for a cipher that takes no vector.
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

/// A walk over the sectors of a bio.
///
/// All sectors share one request, so the cost of a sector is little more than its IV and its
/// scatterlist.
struct Cursor<'a, 'r, W> {
    converter: &'a Converter,
    request: &'r mut Request<'a>,
    walk: W,
    /// Number of the next sector, in units of 512 bytes. Wraps, as in C.
    sector: u64,
}

impl<W: Walk> Cursor<'_, '_, W> {
    /// Advances to the next sector, which has `len` contiguous bytes, and returns its IV sector
    /// number.
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
