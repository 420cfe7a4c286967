// SPDX-License-Identifier: GPL-2.0

//! One bio through the cipher, sector by sector.

use kernel::prelude::*;

use kscale::{
    bio::{
        BlkError,
        BlkResult,
        Segment,
        SegmentMut,
        Segments,
        SegmentsMut, //
    },
    dm::CtrError,
    key::Key,
    skcipher::{
        Request,
        Skcipher, //
    }, //
};

use crate::{
    cipher::CipherSpec,
    iv::{
        Iv,
        Mode, //
    },
    options::Options,
    table::KeyLayout, //
};

/// Everything that decides what a sector looks like on the device.
pub(crate) struct Converter {
    /// A power of two of them. Sector `n` uses number `n` modulo their count.
    ciphers: KVec<Skcipher>,
    /// [`None`] if and only if the ciphers take no initialisation vector.
    iv_mode: Option<Mode>,
    options: Options,
}

impl Converter {
    /// Allocates the ciphers and gives each its part of the key.
    ///
    /// Fails with dm-crypt's messages.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key: impl FnOnce() -> Result<Key>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);
        let mut ciphers = KVec::new();
        let cipher = allocate(spec)?;

        let iv_mode = match (cipher.iv_size(), spec.iv_mode) {
            (0, None) => None,
            (0, Some(_)) => {
                pr_warn!("Selected cipher does not support IVs\n");
                None
            }
            // dm-crypt would use whatever is in memory.
            (_, None) => return Err(CtrError::invalid(c"IV mechanism required")),
            (_, Some(name)) => {
                let mode = Mode::from_name(name).ok_or(CtrError::invalid(c"Invalid IV mode"))?;
                Some((mode, cipher.block_size()))
            }
        };

        let key = key().map_err(bad_key)?;
        if key.as_bytes().len() < spec.n_keys && spec.n_keys > 1 {
            // Not worth allocating as many ciphers.
            return Err(bad_key(EINVAL));
        }
        ciphers.push(cipher, GFP_KERNEL)?;
        while ciphers.len() < spec.n_keys {
            ciphers.push(allocate(spec)?, GFP_KERNEL)?;
        }
        set_keys(&mut ciphers, &key).map_err(bad_key)?;

        let iv_mode = match iv_mode {
            None => None,
            Some((mode, block_size)) => Some(
                mode.for_block_size(block_size)
                    .ok_or(CtrError::invalid(c"Error creating IV"))?,
            ),
        };

        Ok(Self {
            ciphers,
            iv_mode,
            options,
        })
    }

    /// Replaces the key by one of the same length. Allocates nothing.
    ///
    /// After a failure nothing is to be encrypted until this succeeds.
    pub(crate) fn set_key(&mut self, key: &Key) -> Result {
        set_keys(&mut self.ciphers, key)
    }

    /// Returns what a key of `size_bytes` consists of.
    pub(crate) fn key_layout(&self, size_bytes: u32) -> KeyLayout {
        KeyLayout {
            size_bytes,
            // CAST: A line is not long enough for as many.
            parts: self.ciphers.len() as u32,
            extra_size_bytes: 0,
            mac_size_bytes: self.options.integrity_key_size.unwrap_or(0),
        }
    }

    /// Encrypts `src` into `dst`. `first_sector` is what the IV of the first sector is made of.
    ///
    /// Fails with [`BlkError::IOERR`] if a sector is not in one piece of memory, or the cipher
    /// refuses it.
    pub(crate) fn encrypt(
        &self,
        first_sector: u64,
        mut src: Segments<'_>,
        mut dst: SegmentsMut<'_>,
    ) -> BlkResult {
        let mut cursor = Cursor::new(self, first_sector)?;

        while let Some(to) = dst.next_segment(self.options.sector_size) {
            let from = src
                .next_segment(self.options.sector_size)
                .ok_or(BlkError::IOERR)?;
            cursor.encrypt(from, to)?;
        }
        match src.remaining_bytes() {
            0 => Ok(()),
            _ => Err(BlkError::IOERR),
        }
    }

    /// Decrypts `data` in place. Otherwise as [`Converter::encrypt()`].
    pub(crate) fn decrypt(&self, first_sector: u64, mut data: SegmentsMut<'_>) -> BlkResult {
        let mut cursor = Cursor::new(self, first_sector)?;

        while let Some(sector) = data.next_segment(self.options.sector_size) {
            cursor.decrypt(sector)?;
        }
        Ok(())
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

/// Gives each cipher its part of the key.
fn set_keys(ciphers: &mut [Skcipher], key: &Key) -> Result {
    if cfg!(kscale_mutant = "no_cipher") {
        return Ok(());
    }
    let mut rest = key.as_bytes();
    let part_len = rest.len().checked_div(ciphers.len()).unwrap_or(0);

    for cipher in ciphers {
        let (part, others) = rest.split_at_checked(part_len).unwrap_or_default();
        cipher.set_key(part)?;
        rest = others;
    }
    Ok(())
}

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
struct Cursor<'a> {
    converter: &'a Converter,
    request: Request<'a>,
    /// The number of the next sector, in units of 512 bytes. Wraps, as in C.
    sector: u64,
}

impl<'a> Cursor<'a> {
    fn new(converter: &'a Converter, first_sector: u64) -> Result<Self, BlkError> {
        Ok(Self {
            converter,
            request: converter.cipher(first_sector)?.request(),
            sector: first_sector,
        })
    }

    /// Encrypts the next sector.
    #[inline]
    fn encrypt(&mut self, src: Segment<'_>, dst: SegmentMut<'_>) -> BlkResult {
        let (iv, size) = self.next(src.len())?;

        self.request
            .encrypt(src, dst, iv.get(..size).unwrap_or_default())
            .map_err(|_| BlkError::IOERR)
    }

    /// Decrypts the next sector in place.
    #[inline]
    fn decrypt(&mut self, data: SegmentMut<'_>) -> BlkResult {
        let (iv, size) = self.next(data.len())?;

        self.request
            .decrypt_in_place(data, iv.get(..size).unwrap_or_default())
            .map_err(|_| BlkError::IOERR)
    }

    /// Prepares for the next sector, of which `len` bytes are in one piece, and returns its IV.
    #[inline]
    fn next(&mut self, len: u32) -> Result<(Iv, usize), BlkError> {
        let Converter {
            ciphers,
            iv_mode,
            options,
        } = self.converter;
        let sector = self.sector;

        if len != options.sector_size.get() {
            return Err(BlkError::IOERR);
        }

        let cipher = self.converter.cipher(sector)?;
        if ciphers.len() > 1 {
            self.request = cipher.request();
        }
        self.sector = sector.wrapping_add(options.sectors());

        let iv_sector = if options.iv_large_sectors {
            sector.wrapping_shr(options.sectors().trailing_zeros())
        } else {
            sector
        };
        let size = cipher.iv_size();
        let iv = match iv_mode {
            Some(mode) => mode.generate(iv_sector, size),
            None => Iv::default(),
        };
        Ok((iv, size))
    }
}
