// SPDX-License-Identifier: GPL-2.0

//! One bio through a cipher that authenticates, sector by sector.
//!
//! ```text
//! | number of the sector, little endian | vector |  sector               |  tag        |
//! | associated data: authenticated               |  and encrypted        |  kept beside |
//! ```
//!
//! The number is the one on the mapped device, without the IV offset, in units of 512 bytes.

use kernel::prelude::*;

use kscale::{
    aead::{
        Aead,
        AuthencKey,
        Request,
        MAX_ASSOCIATED_SIZE, //
    },
    bio::{
        BlkError,
        BlkResult,
        IntegrityProfile,
        SegmentMut,
        SegmentsMut, //
    },
    dm::CtrError,
    gfp::Gfp,
    key::Key,
    random,
    ratelimit, //
};

use crate::{
    cipher::CipherSpec,
    integrity::Layout,
    iv::{
        Iv,
        Mode,
        SectorMode,
        MIN_IV_SIZE, //
    },
    options::Options,
    table::KeyLayout, //
};

/// Everything that decides what a sector and its tuple look like on the device.
pub(crate) struct Authenticated {
    cipher: Aead,
    iv: Vectors,
    /// How much of a vector is authenticated, in bytes; the cipher may take less.
    iv_size: usize,
    /// There for a cipher with a key of its own for the authentication.
    authenc_key: Option<AuthencKey>,
    key_layout: KeyLayout,
    layout: Option<Layout>,
    options: Options,
}

/// Where vectors come from.
enum Vectors {
    /// Nowhere: the cipher takes none.
    None,
    Sector(SectorMode),
    /// They are random, and kept beside the sectors.
    Random,
}

impl Authenticated {
    /// Allocates the cipher of `line`, the first argument, and gives it its key, of `key_size_bytes`.
    ///
    /// Fails with dm-crypt's messages.
    pub(crate) fn new(
        line: &CStr,
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<Key>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);

        let name = line
            .to_bytes()
            .strip_prefix(b"capi:")
            .ok_or(CtrError::invalid(c"Bad cipher specification"))?;
        let has_mac_key = name.starts_with(b"authenc(");
        if has_mac_key && !name.contains(&b',') {
            return Err(CtrError::invalid(c"Invalid AEAD cipher spec"));
        }
        if spec.iv_mode == Some("lmk") {
            return Err(CtrError::invalid(c"AEAD transforms not supported for LMK"));
        }

        let mut cipher = Aead::new(&spec.api_name)
            .map_err(|error| CtrError::new(c"Error allocating crypto tfm", error))?;
        let mode = mode(&cipher, spec.iv_mode)?;
        let mac_size_bytes = match options.integrity_key_size {
            _ if !has_mac_key => 0,
            Some(size) => size,
            // That of the digest.
            // CAST: At most 64.
            None => cipher.tag_size() as u32,
        };
        let key_layout = KeyLayout {
            size_bytes: key_size_bytes,
            parts: 1,
            extra_size_bytes: 0,
            mac_size_bytes,
        };
        let key = key().map_err(bad_key)?;
        let mut authenc_key = None;
        if has_mac_key {
            let encryption = key_layout.size_bytes.checked_sub(mac_size_bytes);
            // CAST: From 32 to 64 bits, both times.
            authenc_key = Some(
                AuthencKey::new(
                    encryption.ok_or(bad_key(EINVAL))? as usize,
                    mac_size_bytes as usize,
                )
                .map_err(bad_key)?,
            );
        }
        set_key(&mut cipher, authenc_key.as_mut(), mac_size_bytes, &key).map_err(bad_key)?;

        let (iv, iv_size) = vectors(&cipher, mode)?;
        Ok(Self {
            cipher,
            iv,
            iv_size,
            authenc_key,
            key_layout,
            layout: None,
            options,
        })
    }

    /// Fits tags and vectors to what the device has room for.
    pub(crate) fn fit(&mut self, profile: Option<IntegrityProfile>) -> Result<Layout, CtrError> {
        let used_size = self
            .options
            .integrity
            .map_or(0, |integrity| integrity.tag_size_bytes);
        let iv_size = match self.iv {
            // CAST: At most `MAX_IV_SIZE`.
            Vectors::Random => self.iv_size as u32,
            _ => 0,
        };
        let cipher = &mut self.cipher;
        let layout = Layout::new(
            profile,
            self.options.sector_size,
            used_size,
            iv_size,
            Some(|size| cipher.set_tag_size(size)),
        )?;

        self.layout = Some(layout);
        Ok(layout)
    }

    /// Replaces the key by one of the same length. Allocates nothing.
    pub(crate) fn set_key(&mut self, key: &Key) -> Result {
        set_key(
            &mut self.cipher,
            self.authenc_key.as_mut(),
            self.key_layout.mac_size_bytes,
            key,
        )
    }

    /// Returns what the key consists of.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        self.key_layout
    }

    /// Encrypts `data` in place, and makes its `tags`. `sector` is that of the mapped device, to
    /// which `iv_offset` is added for the vectors.
    ///
    /// Fails with [`BlkError::IOERR`] if a sector is not in one piece of memory, or the cipher
    /// refuses it.
    ///
    /// Context: Task or softirq. In a task it may sleep.
    pub(crate) fn encrypt(
        &self,
        sector: u64,
        iv_offset: u64,
        mut data: SegmentsMut<'_>,
        tags: &mut [u8],
    ) -> BlkResult {
        let mut cursor = Cursor::new(self, sector, iv_offset)?;
        let mut tags = tags;

        while let Some(data) = data.next_segment(self.options.sector_size) {
            let (tag, kept) = cursor.layout.next_mut(&mut tags).ok_or(BlkError::IOERR)?;
            if let Vectors::Random = self.iv {
                random::fill(kept);
            }
            cursor
                .next(data, kept, |request, data, associated, iv| {
                    request.encrypt(data, associated, iv, tag)
                })
                .map_err(|_| BlkError::IOERR)?;
        }
        Ok(())
    }

    /// Decrypts `data` in place. Otherwise as [`Authenticated::encrypt()`].
    ///
    /// Fails with [`BlkError::PROTECTION`] if a sector is not what the tag was made for. If `is_final`,
    /// the kernel log says which.
    pub(crate) fn decrypt(
        &self,
        sector: u64,
        iv_offset: u64,
        mut data: SegmentsMut<'_>,
        tags: &[u8],
        is_final: bool,
    ) -> BlkResult {
        let mut cursor = Cursor::new(self, sector, iv_offset)?;
        let mut tags = tags;

        while let Some(data) = data.next_segment(self.options.sector_size) {
            let sector = cursor.sector;
            let (tag, kept) = cursor.layout.next(&mut tags).ok_or(BlkError::IOERR)?;
            let result = cursor.next(data, kept, |request, data, associated, iv| {
                request.decrypt(data, associated, iv, tag)
            });
            if result == Err(EBADMSG) {
                if is_final && ratelimit::may_print() {
                    pr_err!("INTEGRITY AEAD ERROR, sector {sector}\n");
                }
                return Err(BlkError::PROTECTION);
            }
            result.map_err(|_| BlkError::IOERR)?;
        }
        Ok(())
    }

    /// Returns whether the cipher may finish later, so that it cannot be used in a softirq.
    pub(crate) fn may_sleep(&self) -> bool {
        self.cipher.is_async()
    }
}

/// Returns how vectors are made, as far as the name tells, [`None`] if the cipher takes none.
fn mode(cipher: &Aead, name: Option<&str>) -> Result<Option<Mode>, CtrError> {
    match (cipher.iv_size(), name) {
        (0, None) => Ok(None),
        (0, Some(_)) => {
            pr_warn!("Selected cipher does not support IVs\n");
            Ok(None)
        }
        // dm-crypt would use whatever is in memory.
        (_, None) => Err(CtrError::invalid(c"IV mechanism required")),
        (_, Some(name)) => Mode::from_name(name)
            .map(Some)
            .ok_or(CtrError::invalid(c"Invalid IV mode")),
    }
}

/// Fits the mode to the cipher, and returns it with how many bytes there are of a vector.
fn vectors(cipher: &Aead, mode: Option<Mode>) -> Result<(Vectors, usize), CtrError> {
    let iv_size = cipher.iv_size().max(MIN_IV_SIZE);

    match mode {
        None => Ok((Vectors::None, 0)),
        Some(Mode::Random) => Ok((Vectors::Random, iv_size)),
        Some(Mode::Sector(mode)) => match mode.for_block_size(cipher.block_size()) {
            Some(mode) => Ok((Vectors::Sector(mode), iv_size)),
            None => Err(CtrError::invalid(c"Error creating IV")),
        },
        Some(Mode::Eboiv | Mode::Elephant) => Err(CtrError::invalid(
            c"AEAD transforms not supported for EBOIV",
        )),
        // They change the data.
        Some(Mode::Lmk | Mode::Tcw) => Err(CtrError::invalid(c"Error creating IV")),
    }
}

/// Gives the cipher its key, of which the last bytes may be for the authentication.
fn set_key(
    cipher: &mut Aead,
    authenc_key: Option<&mut AuthencKey>,
    mac_size_bytes: u32,
    key: &Key,
) -> Result {
    let key = key.as_bytes();

    match authenc_key {
        None => cipher.set_key(key),
        Some(authenc_key) => {
            // CAST: From 32 to 64 bits.
            let encryption_len = key.len().checked_sub(mac_size_bytes as usize);
            let (encryption, authentication) = key
                .split_at_checked(encryption_len.ok_or(EINVAL)?)
                .ok_or(EINVAL)?;
            authenc_key.set(cipher, encryption, authentication)
        }
    }
}

/// Walks the sectors of a bio. One request serves them all.
struct Cursor<'a> {
    authenticated: &'a Authenticated,
    layout: Layout,
    request: Request<'a>,
    /// The number of the next sector on the mapped device, in units of 512 bytes. Wraps, as in C.
    sector: u64,
    iv_offset: u64,
}

/// The number of a sector, and its vector.
type Associated = [u8; MAX_ASSOCIATED_SIZE];

impl<'a> Cursor<'a> {
    fn new(
        authenticated: &'a Authenticated,
        sector: u64,
        iv_offset: u64,
    ) -> Result<Self, BlkError> {
        let request = authenticated.cipher.request(Gfp::noio_or_atomic());

        Ok(Self {
            authenticated,
            layout: authenticated.layout.ok_or(BlkError::IOERR)?,
            request: request.map_err(|_| BlkError::RESOURCE)?,
            sector,
            iv_offset,
        })
    }

    /// Does `work` to the next sector with what goes with it. `kept` is its vector if that is random,
    /// otherwise there goes no vector.
    #[inline]
    fn next(
        &mut self,
        data: SegmentMut<'_>,
        kept: &[u8],
        work: impl FnOnce(&mut Request<'_>, SegmentMut<'_>, &[u8], &[u8]) -> Result,
    ) -> Result {
        let Authenticated {
            cipher,
            iv: vectors,
            iv_size,
            options,
            ..
        } = self.authenticated;
        let sector = self.sector;

        if data.len() != options.sector_size.get() {
            return Err(EIO);
        }
        self.sector = sector.wrapping_add(options.sectors());

        let mut iv = Iv::default();
        match vectors {
            Vectors::None => {}
            Vectors::Sector(mode) => {
                let sector = sector.wrapping_add(self.iv_offset);
                let shift = if options.iv_large_sectors {
                    options.sectors().trailing_zeros()
                } else {
                    0
                };
                iv = mode.generate(sector.wrapping_shr(shift), cipher.iv_size());
            }
            Vectors::Random => iv.get_mut(..kept.len()).ok_or(EIO)?.copy_from_slice(kept),
        }
        let mut associated: Associated = [0; MAX_ASSOCIATED_SIZE];
        let number = sector.to_le_bytes();
        let (to_number, rest) = associated.split_at_mut_checked(number.len()).ok_or(EIO)?;
        to_number.copy_from_slice(&number);
        let iv_size = *iv_size;
        rest.get_mut(..iv_size)
            .ok_or(EIO)?
            .copy_from_slice(iv.get(..iv_size).ok_or(EIO)?);

        work(
            &mut self.request,
            data,
            associated
                .get(..number.len().saturating_add(iv_size))
                .ok_or(EIO)?,
            iv.get(..cipher.iv_size()).ok_or(EIO)?,
        )
    }
}
