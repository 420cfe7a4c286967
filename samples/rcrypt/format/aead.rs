// SPDX-License-Identifier: GPL-2.0

//! Encryption of a bio with an AEAD cipher, sector by sector.
//!
//! ```text
//! | sector number, little endian | vector |  sector               |  tag        |
//! | associated data: authenticated         |  and encrypted        |  stored beside |
//! ```
//!
//! The sector number is relative to the mapped device, without the IV offset, in units of 512
//! bytes.

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
            SecretBytes, //
        }, //
    },
    lib::random,
    mm::gfp::Gfp, //
};

use crate::{
    cipher_spec::CipherSpec,
    format::tuple::Layout,
    format::Fault,
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

/// The AEAD cipher, the IV generator and the options of a target.
pub(crate) struct Authenticated {
    cipher: Aead,
    iv: Vectors,
    /// Number of authenticated bytes of a vector; the cipher may take fewer.
    iv_size: usize,
    /// Set for a cipher with a separate authentication key.
    authenc_key: Option<AuthencKey>,
    key_layout: KeyLayout,
    parts: KeyParts,
    layout: Option<Layout>,
    options: Options,
}

/// The source of the vectors.
enum Vectors {
    /// The cipher takes no vector.
    None,
    Sector(SectorMode),
    /// Random vectors, stored beside the sectors.
    Random,
    /// The TCW mode, which also whitens the ciphertext.
    Tcw(Tcw),
}

impl Authenticated {
    /// Allocates the cipher and sets its key, of `key_size_bytes`.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);

        let cipher = Aead::new(&spec.api_name)
            .map_err(|error| CtrError::new(c"Error allocating crypto tfm", error))?;
        let mode = mode(&cipher, spec.iv_mode)?;
        let key_layout = KeyLayout {
            mac_size_bytes: match spec.digest_size {
                // The cipher has no separate authentication key.
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

    /// Fits tags and vectors into the integrity tuples of the device.
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

    /// Replaces the key by another key of the same length. Allocates no memory of its own.
    pub(crate) fn set_key(&mut self, key: &SecretBytes) -> Result {
        self.set_cipher_key(key)?;
        match &mut self.iv {
            Vectors::Tcw(mode) => mode.set_key(key.as_bytes()),
            Vectors::None | Vectors::Sector(_) | Vectors::Random => Ok(()),
        }
    }

    /// Sets the key of the cipher.
    fn set_cipher_key(&mut self, key: &SecretBytes) -> Result {
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

    /// Returns the vectors of `mode` for this cipher, and the length of a vector in bytes.
    fn vectors(&self, mode: Mode, key: &SecretBytes) -> Result<(Vectors, usize), CtrError> {
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
            // These modes need a cipher without authentication.
            Mode::Eboiv | Mode::Elephant | Mode::Lmk => return Err(UNFIT),
        };
        Ok((vectors, iv_size))
    }

    /// Returns the parts of the key.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        self.key_layout
    }

    /// Encrypts `data` in place and generates `tags`. `sector` is relative to the mapped device;
    /// `iv_offset` is added to it for the vectors.
    ///
    /// Returns [`BlkError::IOERR`] if a sector is not contiguous in memory or the cipher fails.
    ///
    /// Context: Process or softirq context. May sleep in process context.
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

    /// As [`Authenticated::encrypt()`], but decrypts `data` in place.
    ///
    /// Returns [`Fault::Changed`] if a sector does not match its tag.
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

    /// Returns whether the cipher is asynchronous, so that a softirq cannot use it.
    pub(crate) fn may_sleep(&self) -> bool {
        self.cipher.is_async()
    }
}

/// Returns the IV mode with the given name, or [`None`] if the cipher takes no vector.
fn mode(cipher: &Aead, name: Option<&str>) -> Result<Option<Mode>, CtrError> {
    match (cipher.iv_size(), name) {
        (0, None) => Ok(None),
        (0, Some(_)) => {
            pr_warn!("Selected cipher does not support IVs\n");
            Ok(None)
        }
        // dm-crypt uses uninitialised memory here.
        (_, None) => Err(CtrError::invalid(c"IV mechanism required")),
        (_, Some(name)) => Mode::from_name(name)
            .map(Some)
            .ok_or(CtrError::invalid(c"Invalid IV mode")),
    }
}

/// The lengths of the cipher's parts of the key, in bytes.
struct KeyParts {
    encryption: usize,
    authentication: usize,
}

impl KeyParts {
    /// Returns [`EINVAL`] if the key is too short.
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

/// A walk over the sectors of a bio. All sectors share one request.
struct Cursor<'a> {
    authenticated: &'a Authenticated,
    layout: Layout,
    request: Request<'a>,
    /// Number of the next sector on the mapped device, in units of 512 bytes. Wraps, as in C.
    sector: u64,
    iv_offset: u64,
}

/// The sector number and the vector of a sector.
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

    /// Runs `work` on the next sector with its associated data and vector. `encrypts` is the
    /// direction of `work`. `kept` is the vector if vectors are random, otherwise it is empty.
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
        // The vector now contains key material, see `Walk::iv_seed()`: no return before it is
        // wiped.
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
