// SPDX-License-Identifier: GPL-2.0

//! Encryption and decryption of a bio without authentication, sector by sector.

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
    iv::{
        xor,
        Input,
        Iv,
        IvMode,
        IvOps,
        SectorMode, //
    },
    options::Options,
    table::{
        Config,
        KeyLayout, //
    }, //
};

#[cfg(kscale_kunit)]
mod answers;

/// The ciphers of a target: a power of two. Sector `n` uses cipher `n` modulo their number.
pub(crate) struct Ciphers {
    first: Skcipher,
    others: KVec<Skcipher>,
}

impl Ciphers {
    /// Allocates the ciphers and sets their keys, from a key of `key_size_bytes`. Also returns the
    /// IV mode, the parts of the key, and the key.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(super) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
        options: &Options,
    ) -> Result<(Self, IvMode, KeyLayout, SecretBytes), CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);
        let first = allocate(spec)?;

        let mode = IvMode::for_cipher(first.iv_size(), spec.iv_mode)?;
        let layout = KeyLayout {
            mac_size_bytes: options.integrity_key_size.unwrap_or(0),
            // CAST: Both numbers are small.
            ..mode.key_layout(key_size_bytes, spec.n_keys as u32, first.iv_size() as u32)?
        };
        let key = key().map_err(bad_key)?;
        if key.as_bytes().len() < spec.n_keys && spec.n_keys > 1 {
            // The key is too short for `n_keys` ciphers: do not allocate them.
            return Err(bad_key(EINVAL));
        }
        let mut others = KVec::new();
        for _ in 1..spec.n_keys {
            others.push(allocate(spec)?, GFP_KERNEL)?;
        }
        let mut this = Self { first, others };
        this.set_key(&key, &layout).map_err(bad_key)?;
        Ok((this, mode, layout, key))
    }

    /// Sets the key of each cipher. The last `layout.extra_len()` bytes of `key` are not part of
    /// the cipher keys.
    pub(super) fn set_key(&mut self, key: &SecretBytes, layout: &KeyLayout) -> Result {
        if cfg!(kscale_mutant = "no_cipher") {
            return Ok(());
        }
        let key = key.as_bytes();
        let part_len = key
            .len()
            .checked_sub(layout.extra_len())
            .and_then(|len| len.checked_div(self.others.len().wrapping_add(1)))
            .ok_or(EINVAL)?;

        let (part, mut rest) = key.split_at_checked(part_len).unwrap_or_default();
        self.first.set_key(part)?;
        for cipher in &mut self.others {
            let (part, others) = rest.split_at_checked(part_len).unwrap_or_default();
            cipher.set_key(part)?;
            rest = others;
        }
        Ok(())
    }

    /// Returns the length of the IV that each cipher takes, in bytes; 0 if it takes none.
    #[inline]
    pub(crate) fn iv_size(&self) -> usize {
        self.first.iv_size()
    }

    /// Returns the block size of the ciphers, in bytes.
    pub(super) fn block_size(&self) -> usize {
        self.first.block_size()
    }

    /// Returns the first cipher if there are several.
    pub(crate) fn first_of_many(&self) -> Option<&Skcipher> {
        Some(&self.first).filter(|_| !self.others.is_empty())
    }

    /// Returns whether there is one cipher, which is asynchronous.
    pub(super) fn is_one_async(&self) -> bool {
        self.others.is_empty() && self.first.is_async()
    }

    /// Returns whether a cipher may sleep.
    pub(super) fn may_sleep(&self) -> bool {
        self.first.may_sleep() || self.others.iter().any(Skcipher::may_sleep)
    }

    /// Returns the cipher of a sector.
    #[inline]
    fn cipher(&self, sector: u64) -> &Skcipher {
        // CAST: The mask keeps only the low bits that select a cipher.
        let index = sector as usize & self.others.len();

        index
            .checked_sub(1)
            .and_then(|other| self.others.get(other))
            .unwrap_or(&self.first)
    }

    /// Encrypts `src` into `dst`, with IVs that depend only on the sector number. See
    /// [`Format::encrypt()`].
    ///
    /// [`Format::encrypt()`]: super::Format::encrypt
    #[inline]
    pub(super) fn encrypt_by_number(
        &self,
        config: &Config,
        sector: u64,
        src: Segments<'_>,
        dst: SegmentsMut<'_>,
        mode: SectorMode,
    ) -> BlkResult {
        let size = self.iv_size();

        if !self.others.is_empty() {
            return self.encrypt(config, sector, src, dst, mode.ops(size));
        }
        match mode {
            // All new formats have these modes, so they have their own code.
            SectorMode::Plain64 | SectorMode::Essiv => {
                let iv = |sector| SectorMode::Plain64.generate(sector, size);
                self.encrypt_runs(config, sector, src, dst, iv)
            }
            mode => {
                let iv = |sector| mode.generate(sector, size);
                self.encrypt_runs(config, sector, src, dst, iv)
            }
        }
    }

    /// Encrypts `src` into `dst` with the only cipher. The sectors that are contiguous in memory
    /// are one call of the library. `iv` generates the IVs.
    #[inline(never)]
    fn encrypt_runs(
        &self,
        config: &Config,
        sector: u64,
        mut src: Segments<'_>,
        mut dst: SegmentsMut<'_>,
        iv: impl Fn(u64) -> Iv,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        let mut request = self.first.request();

        while let Some(mut dst) = dst.next_segment(NonZeroU32::MAX) {
            while let Some(left) = NonZeroU32::new(dst.len()) {
                let src = src.next_segment(left).ok_or(BlkError::IOERR)?;
                let dst = dst.split_to(src.len()).ok_or(BlkError::IOERR)?;
                request
                    .encrypt_sectors(src, dst, config.options.sector_size, || {
                        iv(sectors.next_iv_sector())
                    })
                    .map_err(|_| BlkError::IOERR)?;
            }
        }
        all_read(&src)
    }

    /// As [`Ciphers::encrypt_by_number()`], but decrypts `data` in place.
    #[inline]
    pub(super) fn decrypt_by_number(
        &self,
        config: &Config,
        sector: u64,
        data: SegmentsMut<'_>,
        mode: SectorMode,
    ) -> BlkResult {
        let size = self.iv_size();

        if !self.others.is_empty() {
            return self.decrypt(config, sector, data, mode.ops(size));
        }
        match mode {
            SectorMode::Plain64 | SectorMode::Essiv => {
                let iv = |sector| SectorMode::Plain64.generate(sector, size);
                self.decrypt_runs(config, sector, data, iv)
            }
            mode => {
                let iv = |sector| mode.generate(sector, size);
                self.decrypt_runs(config, sector, data, iv)
            }
        }
    }

    /// As [`Ciphers::encrypt_runs()`], but decrypts `data` in place.
    #[inline(never)]
    fn decrypt_runs(
        &self,
        config: &Config,
        sector: u64,
        mut data: SegmentsMut<'_>,
        iv: impl Fn(u64) -> Iv,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        let mut request = self.first.request();

        while let Some(data) = data.next_segment(NonZeroU32::MAX) {
            request
                .decrypt_sectors_in_place(data, config.options.sector_size, || {
                    iv(sectors.next_iv_sector())
                })
                .map_err(|_| BlkError::IOERR)?;
        }
        Ok(())
    }

    /// Encrypts `src` into `dst`, with the IVs of `ops`. See [`Format::encrypt()`].
    ///
    /// Never inlined, so that the stack frames of the modes do not add up.
    ///
    /// [`Format::encrypt()`]: super::Format::encrypt
    #[inline(never)]
    pub(super) fn encrypt(
        &self,
        config: &Config,
        sector: u64,
        mut src: Segments<'_>,
        mut dst: SegmentsMut<'_>,
        mut ops: impl IvOps,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        // Built in place, because a request is large.
        let mut request = self.cipher(sectors.next).request();

        while let Some(mut dst) = dst.next_segment(config.options.sector_size) {
            let src = src
                .next_segment(config.options.sector_size)
                .ok_or(BlkError::IOERR)?;
            if !self.others.is_empty() {
                request = self.cipher(sectors.next).request();
            }
            sectors
                .iv_sector(src.len())
                .and_then(|sector| self.encrypt_one(&mut request, sector, src, &mut dst, &mut ops))
                .map_err(|_| BlkError::IOERR)?;
        }
        all_read(&src)
    }

    /// Encrypts a sector.
    #[inline]
    fn encrypt_one(
        &self,
        request: &mut Request<'_>,
        sector: u64,
        src: Segment<'_>,
        dst: &mut SegmentMut<'_>,
        ops: &mut impl IvOps,
    ) -> Result {
        let input = ops.pre_encrypt(sector, src, dst)?;
        let mut iv = ops.generate(request, sector)?;
        if let Some(seed) = ops.seed() {
            xor(&mut iv, seed);
        }
        let used = iv.get(..self.iv_size()).unwrap_or_default();

        let result = match input {
            Input::Source => request.encrypt(src, dst.reborrow(), used),
            Input::Destination => request.encrypt_in_place(dst.reborrow(), used),
        };
        if ops.seed().is_some() {
            memzero_explicit(&mut iv);
        }
        result?;
        ops.post_encrypt(sector, dst)
    }

    /// As [`Ciphers::encrypt()`], but decrypts `data` in place.
    #[inline(never)]
    pub(super) fn decrypt(
        &self,
        config: &Config,
        sector: u64,
        mut data: SegmentsMut<'_>,
        mut ops: impl IvOps,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        let mut request = self.cipher(sectors.next).request();

        while let Some(mut data) = data.next_segment(config.options.sector_size) {
            if !self.others.is_empty() {
                request = self.cipher(sectors.next).request();
            }
            sectors
                .iv_sector(data.len())
                .and_then(|sector| self.decrypt_one(&mut request, sector, &mut data, &mut ops))
                .map_err(|_| BlkError::IOERR)?;
        }
        Ok(())
    }

    /// Decrypts a sector in place.
    #[inline]
    fn decrypt_one(
        &self,
        request: &mut Request<'_>,
        sector: u64,
        data: &mut SegmentMut<'_>,
        ops: &mut impl IvOps,
    ) -> Result {
        ops.pre_decrypt(sector, data)?;
        let mut iv = ops.generate(request, sector)?;
        if let Some(seed) = ops.seed() {
            xor(&mut iv, seed);
        }
        let used = iv.get(..self.iv_size()).unwrap_or_default();

        let result = request.decrypt_in_place(data.reborrow(), used);
        if ops.seed().is_some() {
            memzero_explicit(&mut iv);
        }
        result?;
        ops.post_decrypt(sector, data)
    }

    /// As [`Ciphers::encrypt()`], with several requests of the only cipher in flight.
    #[cold]
    #[inline(never)]
    pub(super) fn encrypt_queued<'a>(
        &'a self,
        config: &Config,
        sector: u64,
        mut src: Segments<'a>,
        mut dst: SegmentsMut<'a>,
        mode: SectorMode,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        let encrypted = self.first.queue(|queue| {
            while let Some(dst) = dst.next_segment(config.options.sector_size) {
                let src = src.next_segment(config.options.sector_size).ok_or(EIO)?;
                let iv = mode.generate(sectors.iv_sector(src.len())?, self.iv_size());
                queue.encrypt(src, dst, iv.get(..self.iv_size()).unwrap_or_default())?;
            }
            Ok(())
        });
        encrypted.map_err(|_| BlkError::IOERR)?;
        all_read(&src)
    }

    /// As [`Ciphers::decrypt()`], with several requests of the only cipher in flight.
    #[cold]
    #[inline(never)]
    pub(super) fn decrypt_queued<'a>(
        &'a self,
        config: &Config,
        sector: u64,
        mut data: SegmentsMut<'a>,
        mode: SectorMode,
    ) -> BlkResult {
        let mut sectors = Sectors::new(config, sector);
        let decrypted = self.first.queue(|queue| {
            while let Some(data) = data.next_segment(config.options.sector_size) {
                let iv = mode.generate(sectors.iv_sector(data.len())?, self.iv_size());
                queue.decrypt_in_place(data, iv.get(..self.iv_size()).unwrap_or_default())?;
            }
            Ok(())
        });
        decrypted.map_err(|_| BlkError::IOERR)
    }
}

/// Returns [`BlkError::IOERR`] if `src` is longer than the destination.
#[inline]
fn all_read(src: &Segments<'_>) -> BlkResult {
    match src.remaining_bytes() {
        0 => Ok(()),
        _ => Err(BlkError::IOERR),
    }
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

/// The numbers of the sectors of a bio.
struct Sectors<'a> {
    options: &'a Options,
    /// Number of the next sector, with the IV offset, in units of 512 bytes. Wraps, as in C.
    next: u64,
    /// Size of a sector in units of 512 bytes.
    step: u64,
    /// Binary logarithm of the units of 512 bytes that the IV counts as one.
    shift: u32,
}

impl<'a> Sectors<'a> {
    #[inline]
    fn new(config: &'a Config, sector: u64) -> Self {
        Self {
            options: &config.options,
            next: sector.wrapping_add(config.iv_offset),
            step: config.options.sectors(),
            shift: config.options.iv_shift(),
        }
    }

    /// Returns the number from which the IV of the next sector is generated, and advances.
    ///
    /// Returns [`EIO`] unless `len`, the contiguous bytes of the sector, is the sector size.
    #[inline]
    fn iv_sector(&mut self, len: u32) -> Result<u64> {
        if len != self.options.sector_size.get() {
            return Err(EIO);
        }
        Ok(self.next_iv_sector())
    }

    /// Returns the number from which the IV of the next sector is generated, and advances.
    #[inline]
    fn next_iv_sector(&mut self) -> u64 {
        let sector = self.next;

        self.next = sector.wrapping_add(self.step);
        sector.wrapping_shr(self.shift)
    }
}
