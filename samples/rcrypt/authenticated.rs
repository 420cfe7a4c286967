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
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityProfile,
            SegmentMut,
            SegmentsMut, //
        },
        dm::CtrError, //
    },
    crypto::{
        aead::{
            Aead,
            AuthencKey,
            Request,
            MAX_ASSOCIATED_SIZE, //
        },
        secret::{
            memzero_explicit,
            Key, //
        }, //
    },
    lib::random,
    mm::gfp::Gfp, //
};

use crate::{
    cipher::CipherSpec,
    cryptor::Fault,
    integrity::Layout,
    iv::{
        xor,
        Iv,
        Mode,
        Params,
        SectorMode,
        Tcw,
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
    parts: KeyParts,
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
    /// The mode that also changes what was encrypted.
    Tcw(Tcw),
}

impl Authenticated {
    /// Allocates the cipher and gives it its key, of `key_size_bytes`.
    ///
    /// Fails with dm-crypt's messages.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<Key>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);

        let cipher = Aead::new(&spec.api_name)
            .map_err(|error| CtrError::new(c"Error allocating crypto tfm", error))?;
        let mode = mode(&cipher, spec.iv_mode)?;
        let key_layout = KeyLayout {
            mac_size_bytes: match spec.digest_size {
                // A cipher without a key of its own for that.
                None => 0,
                Some(size) => options.integrity_key_size.unwrap_or(size),
            },
            ..match mode {
                None => KeyLayout::of_one_key(key_size_bytes),
                // CAST: At most `MAX_IV_SIZE`.
                Some(mode) => mode.key_layout(key_size_bytes, 1, cipher.iv_size() as u32)?,
            }
        };
        let key = key().map_err(bad_key)?;
        let parts = KeyParts::new(&key_layout).map_err(bad_key)?;
        let authenc_key = match spec.digest_size {
            None => None,
            Some(_) => {
                Some(AuthencKey::new(parts.encryption, parts.authentication).map_err(bad_key)?)
            }
        };
        let mut this = Self {
            cipher,
            iv: Vectors::None,
            iv_size: 0,
            authenc_key,
            key_layout,
            parts,
            layout: None,
            options,
        };
        this.set_cipher_key(&key).map_err(bad_key)?;
        if let Some(mode) = mode {
            (this.iv, this.iv_size) = this.vectors(mode, &key)?;
        }
        Ok(this)
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
        self.set_cipher_key(key)?;
        match &mut self.iv {
            Vectors::Tcw(mode) => mode.set_key(key.as_bytes()),
            Vectors::None | Vectors::Sector(_) | Vectors::Random => Ok(()),
        }
    }

    /// Gives the cipher its part of the key.
    fn set_cipher_key(&mut self, key: &Key) -> Result {
        let (encryption, rest) = key
            .as_bytes()
            .split_at_checked(self.parts.encryption)
            .ok_or(EINVAL)?;
        let authentication = rest.get(..self.parts.authentication).ok_or(EINVAL)?;

        match &mut self.authenc_key {
            None => self.cipher.set_key(encryption),
            Some(authenc_key) => authenc_key.set(&mut self.cipher, encryption, authentication),
        }
    }

    /// Fits the mode to the cipher, and returns it with how many bytes there are of a vector.
    fn vectors(&self, mode: Mode, key: &Key) -> Result<(Vectors, usize), CtrError> {
        const UNFIT: CtrError = CtrError::invalid(c"Error creating IV");
        let iv_size = self.cipher.iv_size().max(MIN_IV_SIZE);
        let block_size = self.cipher.block_size();

        let vectors = match mode {
            Mode::Random => Vectors::Random,
            Mode::Sector(mode) => Vectors::Sector(mode.for_block_size(block_size).ok_or(UNFIT)?),
            Mode::Tcw => Vectors::Tcw(
                Tcw::new(&Params {
                    key: key.as_bytes(),
                    // CAST: From 32 to 64 bits.
                    extra_len: self.key_layout.extra_size_bytes as usize,
                    n_keys: 1,
                    iv_size: self.cipher.iv_size(),
                    block_size,
                    options: &self.options,
                })
                .map_err(|error| CtrError::new(c"Error creating IV", error))?,
            ),
            // They need a cipher that does not authenticate.
            Mode::Eboiv | Mode::Elephant | Mode::Lmk => return Err(UNFIT),
        };
        Ok((vectors, iv_size))
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
                .next(data, kept, true, |request, data, associated, iv| {
                    request.encrypt(data, associated, iv, tag)
                })
                .map_err(|_| BlkError::IOERR)?;
        }
        Ok(())
    }

    /// Decrypts `data` in place. Otherwise as [`Authenticated::encrypt()`].
    ///
    /// Fails with [`Fault::Changed`] if a sector is not what the tag was made for.
    pub(crate) fn decrypt(
        &self,
        sector: u64,
        iv_offset: u64,
        mut data: SegmentsMut<'_>,
        tags: &[u8],
    ) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self, sector, iv_offset)?;
        let mut tags = tags;

        while let Some(data) = data.next_segment(self.options.sector_size) {
            let sector = cursor.sector;
            let (tag, kept) = cursor.layout.next(&mut tags).ok_or(BlkError::IOERR)?;
            let result = cursor.next(data, kept, false, |request, data, associated, iv| {
                request.decrypt(data, associated, iv, tag)
            });
            match result {
                Err(EBADMSG) => return Err(Fault::Changed { sector }),
                result => result.map_err(|_| BlkError::IOERR)?,
            }
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

/// How long the parts of the key are that the cipher gets, in bytes.
struct KeyParts {
    encryption: usize,
    authentication: usize,
}

impl KeyParts {
    /// Fails with [`EINVAL`] if the key is too short.
    fn new(layout: &KeyLayout) -> Result<Self> {
        let encryption = layout
            .size_bytes
            .checked_sub(layout.extra_size_bytes)
            .and_then(|size| size.checked_sub(layout.mac_size_bytes))
            .ok_or(EINVAL)?;

        // CAST: From 32 to 64 bits, both times.
        Ok(Self {
            encryption: encryption as usize,
            authentication: layout.mac_size_bytes as usize,
        })
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

    /// Does `work`, which `encrypts` or decrypts, to the next sector with what goes with it. `kept` is
    /// its vector if that is random, otherwise there goes no vector.
    #[inline]
    fn next(
        &mut self,
        mut data: SegmentMut<'_>,
        kept: &[u8],
        encrypts: bool,
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

        let iv_sector = options.iv_sector(sector.wrapping_add(self.iv_offset));
        let mut iv = Iv::default();
        match vectors {
            Vectors::None => {}
            Vectors::Sector(mode) => iv = mode.generate(iv_sector, cipher.iv_size()),
            Vectors::Random => iv.get_mut(..kept.len()).ok_or(EIO)?.copy_from_slice(kept),
            Vectors::Tcw(mode) => {
                iv = mode.iv(iv_sector);
                if !encrypts {
                    mode.whiten(iv_sector, &mut data)?;
                }
            }
        }
        let mut associated: Associated = [0; MAX_ASSOCIATED_SIZE];
        let number = sector.to_le_bytes();
        let (to_number, rest) = associated.split_at_mut_checked(number.len()).ok_or(EIO)?;
        to_number.copy_from_slice(&number);
        let iv_size = *iv_size;
        let to_iv = rest.get_mut(..iv_size).ok_or(EIO)?;
        to_iv.copy_from_slice(iv.get(..iv_size).ok_or(EIO)?);
        // A part of the key: see `Walk::iv_seed()`. From here on nothing returns before it is wiped.
        if let Vectors::Tcw(mode) = vectors {
            xor(&mut iv, mode.seed());
            xor(to_iv, mode.seed());
        }

        let result = match (
            associated.get(..number.len().saturating_add(iv_size)),
            iv.get(..cipher.iv_size()),
        ) {
            (Some(associated), Some(iv)) => {
                work(&mut self.request, data.reborrow(), associated, iv)
            }
            _ => Err(EIO),
        };
        if let Vectors::Tcw(_) = vectors {
            memzero_explicit(&mut iv);
            memzero_explicit(&mut associated);
        }
        result?;
        match vectors {
            Vectors::Tcw(mode) if encrypts => mode.whiten(iv_sector, &mut data),
            _ => Ok(()),
        }
    }
}
