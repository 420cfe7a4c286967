// SPDX-License-Identifier: GPL-2.0

//! The format of the data on the device. The constructor selects it once.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::{
            BlkError,
            BlkResult,
            IntegrityProfile,
            Segments,
            SegmentsMut, //
        },
        dm::CtrError, //
    },
    crypto::secret::SecretBytes, //
};

use crate::{
    cipher_spec::CipherSpec,
    iv::{
        iv_len,
        IvGenerator,
        Params,
        StoredIv, //
    },
    options::Options,
    table::{
        Config,
        KeyLayout, //
    }, //
};

pub(crate) mod aead;
pub(crate) mod skcipher;
pub(crate) mod tuple;

use self::{
    aead::AeadFormat,
    skcipher::Ciphers,
    tuple::TupleLayout, //
};

/// The format of the sectors, with the ciphers and all other data derived from the key.
pub(crate) enum Format {
    /// Sectors are encrypted.
    Plain { ciphers: Ciphers, iv: IvGenerator },
    /// As [`Format::Plain`], with a random IV beside each sector.
    StoredIv(Ciphers),
    /// Sectors are encrypted and authenticated, with a tag beside each sector.
    Aead(AeadFormat),
}

/// The reason why decryption failed.
pub(crate) enum Fault {
    /// This sector does not match its tag. The number is relative to the mapped device, in units of
    /// 512 bytes.
    Changed { sector: u64 },
    /// Any other error.
    Other(BlkError),
}

impl From<BlkError> for Fault {
    fn from(error: BlkError) -> Self {
        Self::Other(error)
    }
}

impl From<Fault> for BlkError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Changed { .. } => Self::PROTECTION,
            Fault::Other(error) => error,
        }
    }
}

impl Format {
    /// Allocates the ciphers and sets their keys, from a key of `key_size_bytes`. Also returns the
    /// parts of the key.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
        options: &Options,
    ) -> Result<(Self, KeyLayout), CtrError> {
        if options.is_aead() {
            let (aead, layout) = AeadFormat::new(spec, key_size_bytes, key, options)?;
            return Ok((Self::Aead(aead), layout));
        }
        let (ciphers, mode, layout, key) = Ciphers::new(spec, key_size_bytes, key, options)?;
        let iv = mode.generator(&Params {
            key: key.as_bytes(),
            extra_len: layout.extra_len(),
            n_keys: spec.n_keys,
            iv_size: ciphers.iv_size(),
            block_size: ciphers.block_size(),
            options,
        })?;

        let format = match iv {
            None => Self::StoredIv(ciphers),
            Some(IvGenerator::Sector(mode)) if ciphers.is_one_async() => Self::Plain {
                ciphers,
                iv: IvGenerator::Queued(mode),
            },
            Some(iv) => Self::Plain { ciphers, iv },
        };
        Ok((format, layout))
    }

    /// Fits tags and IVs into the integrity tuples of the device. Returns their layout, or [`None`]
    /// if the format stores nothing beside the sectors.
    pub(crate) fn bind_integrity_profile(
        &mut self,
        profile: Option<IntegrityProfile>,
        options: &Options,
    ) -> Result<Option<TupleLayout>, CtrError> {
        // CAST: IVs have at most `MAX_IV_SIZE` bytes, both times.
        match self {
            Self::Plain { .. } => Ok(None),
            Self::StoredIv(ciphers) => TupleLayout::new(
                profile,
                options,
                iv_len(ciphers.iv_size()) as u32,
                None::<fn(usize) -> Result>,
            )
            .map(Some),
            Self::Aead(aead) => {
                let iv_size = aead.stored_iv_len() as u32;
                let set_tag_size = |size| aead.set_tag_size(size);
                TupleLayout::new(profile, options, iv_size, Some(set_tag_size)).map(Some)
            }
        }
    }

    /// Replaces the key by another key of the same length. Allocates no memory of its own.
    ///
    /// After an error the caller must not encrypt until a call succeeds.
    pub(crate) fn set_key(&mut self, key: &SecretBytes, layout: &KeyLayout) -> Result {
        match self {
            Self::Plain { ciphers, iv } => {
                ciphers.set_key(key, layout)?;
                iv.set_key(key.as_bytes())
            }
            Self::StoredIv(ciphers) => ciphers.set_key(key, layout),
            Self::Aead(aead) => aead.set_key(key, layout),
        }
    }

    /// Returns whether encryption may sleep in process context, so that a softirq cannot use the
    /// ciphers: the mode or a cipher allocates memory for each bio, or a cipher is asynchronous.
    pub(crate) fn may_sleep(&self) -> bool {
        match self {
            Self::Plain { ciphers, iv } => iv.may_sleep() || ciphers.may_sleep(),
            Self::StoredIv(ciphers) => ciphers.may_sleep(),
            Self::Aead(aead) => aead.is_async(),
        }
    }

    /// Encrypts `src` into `dst`, and generates the tuples. `sector` is the first sector, relative
    /// to the target.
    ///
    /// Data is copied before it is authenticated. The submitter may modify its pages at any time,
    /// and the tag would then not match the ciphertext.
    ///
    /// Returns [`BlkError::IOERR`] if a sector is not contiguous in memory or the cipher fails.
    /// Returns [`BlkError::RESOURCE`] if a memory allocation fails in atomic context.
    ///
    /// Context: Process or softirq context. May sleep in process context.
    #[inline]
    pub(crate) fn encrypt(
        &self,
        config: &Config,
        sector: u64,
        src: Segments<'_>,
        mut dst: SegmentsMut<'_>,
        tuples: &mut [u8],
    ) -> BlkResult {
        match self {
            // Each mode has its own monomorphised code, so the mode is matched once per bio.
            Self::Plain { ciphers, iv } => match iv {
                IvGenerator::Sector(mode) => {
                    ciphers.encrypt_by_number(config, sector, src, dst, *mode)
                }
                IvGenerator::Queued(mode) => {
                    ciphers.encrypt_queued(config, sector, src, dst, *mode)
                }
                IvGenerator::Eboiv(mode) => {
                    let ops = mode.ops(ciphers, config.options.sector_size)?;
                    ciphers.encrypt(config, sector, src, dst, ops)
                }
                IvGenerator::Elephant(mode) => {
                    let ops = mode.ops(ciphers, config.options.sector_size)?;
                    ciphers.encrypt(config, sector, src, dst, ops)
                }
                IvGenerator::Lmk(mode) => ciphers.encrypt(config, sector, src, dst, mode.ops()),
                IvGenerator::Tcw(mode) => ciphers.encrypt(config, sector, src, dst, mode),
            },
            Self::StoredIv(ciphers) => {
                let ops = StoredIv::random(tuples, config.tuple);
                ciphers.encrypt(config, sector, src, dst, ops)
            }
            Self::Aead(aead) => {
                dst.copy_from(src).map_err(|_| BlkError::IOERR)?;
                aead.encrypt(config, sector, dst, tuples)
            }
        }
    }

    /// As [`Format::encrypt()`], but decrypts `data` in place, with the tuples that the device
    /// stored.
    ///
    /// Returns [`Fault::Changed`] if a sector does not match its tag.
    #[inline]
    pub(crate) fn decrypt(
        &self,
        config: &Config,
        sector: u64,
        data: SegmentsMut<'_>,
        tuples: &[u8],
    ) -> Result<(), Fault> {
        let result = match self {
            Self::Plain { ciphers, iv } => match iv {
                IvGenerator::Sector(mode) => ciphers.decrypt_by_number(config, sector, data, *mode),
                IvGenerator::Queued(mode) => ciphers.decrypt_queued(config, sector, data, *mode),
                IvGenerator::Eboiv(mode) => {
                    let ops = mode.ops(ciphers, config.options.sector_size)?;
                    ciphers.decrypt(config, sector, data, ops)
                }
                IvGenerator::Elephant(mode) => {
                    let ops = mode.ops(ciphers, config.options.sector_size)?;
                    ciphers.decrypt(config, sector, data, ops)
                }
                IvGenerator::Lmk(mode) => ciphers.decrypt(config, sector, data, mode.ops()),
                IvGenerator::Tcw(mode) => ciphers.decrypt(config, sector, data, mode),
            },
            Self::StoredIv(ciphers) => {
                let ops = StoredIv::new(tuples, config.tuple);
                ciphers.decrypt(config, sector, data, ops)
            }
            Self::Aead(aead) => return aead.decrypt(config, sector, data, tuples),
        };
        Ok(result?)
    }
}
