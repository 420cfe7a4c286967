// SPDX-License-Identifier: GPL-2.0

//! The cryptor of a target: encryption with or without authentication and tags.

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
    format::aead::Authenticated,
    format::skcipher::Converter,
    format::tuple::Layout,
    options::Options,
    table::KeyLayout, //
};

pub(crate) mod aead;
pub(crate) mod skcipher;
pub(crate) mod tuple;

/// The ciphers, the IV generator and the options of a target.
///
/// All data derived from the key is stored here.
pub(crate) struct Cryptor {
    kind: Kind,
    /// The layout of the bytes beside a sector, if the device stores any.
    layout: Option<Layout>,
}

enum Kind {
    Plain(KBox<Converter>),
    Authenticated(KBox<Authenticated>),
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

impl Cryptor {
    /// Allocates the ciphers and sets their keys, from a key of `key_size_bytes`.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
        options: Options,
    ) -> Result<Self, CtrError> {
        let kind = if options.is_aead() {
            Kind::Authenticated(KBox::new(
                Authenticated::new(spec, key_size_bytes, key, options)?,
                GFP_KERNEL,
            )?)
        } else {
            Kind::Plain(KBox::new(
                Converter::new(spec, key_size_bytes, key, options)?,
                GFP_KERNEL,
            )?)
        };

        Ok(Self { kind, layout: None })
    }

    /// Fits tags and vectors into the integrity tuples of the device. Returns their layout, if any.
    pub(crate) fn fit(
        &mut self,
        profile: Option<IntegrityProfile>,
        options: &Options,
    ) -> Result<Option<Layout>, CtrError> {
        self.layout = match &mut self.kind {
            Kind::Authenticated(authenticated) => Some(authenticated.fit(profile)?),
            Kind::Plain(converter) => match converter.kept_iv_size() {
                None => None,
                Some(iv_size) => Some(Layout::new(
                    profile,
                    options.sector_size,
                    options
                        .integrity
                        .map_or(0, |integrity| integrity.tag_size_bytes),
                    // CAST: At most `MAX_IV_SIZE`.
                    iv_size as u32,
                    None::<fn(usize) -> Result>,
                )?),
            },
        };
        Ok(self.layout)
    }

    /// Replaces the key by another key of the same length. Allocates no memory of its own.
    ///
    /// After an error the caller must not encrypt until a call succeeds.
    pub(crate) fn set_key(&mut self, key: &SecretBytes) -> Result {
        match &mut self.kind {
            Kind::Plain(converter) => converter.set_key(key),
            Kind::Authenticated(authenticated) => authenticated.set_key(key),
        }
    }

    /// Returns the parts of the key.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        match &self.kind {
            Kind::Plain(converter) => converter.key_layout(),
            Kind::Authenticated(authenticated) => authenticated.key_layout(),
        }
    }

    /// Returns whether encryption may sleep in process context, so that a softirq cannot use the
    /// ciphers.
    pub(crate) fn may_sleep(&self) -> bool {
        match &self.kind {
            Kind::Plain(converter) => converter.may_sleep(),
            Kind::Authenticated(authenticated) => authenticated.may_sleep(),
        }
    }

    /// Encrypts `src` into `dst`, without tags. The IV of the first sector is generated from
    /// `first_sector`.
    ///
    /// Returns [`BlkError::IOERR`] if a sector is not contiguous in memory or the cipher fails.
    /// Returns [`BlkError::RESOURCE`] if a memory allocation fails in atomic context.
    ///
    /// Context: Process or softirq context. May sleep in process context.
    #[inline]
    pub(crate) fn encrypt(
        &self,
        first_sector: u64,
        src: Segments<'_>,
        dst: SegmentsMut<'_>,
    ) -> BlkResult {
        match &self.kind {
            Kind::Plain(converter) => converter.encrypt(first_sector, src, dst),
            Kind::Authenticated(_) => Err(BlkError::IOERR),
        }
    }

    /// As [`Cryptor::encrypt()`], but decrypts `data` in place.
    #[inline]
    pub(crate) fn decrypt(&self, first_sector: u64, data: SegmentsMut<'_>) -> BlkResult {
        match &self.kind {
            Kind::Plain(converter) => converter.decrypt(first_sector, data),
            Kind::Authenticated(_) => Err(BlkError::IOERR),
        }
    }

    /// As [`Cryptor::encrypt()`], but also generates the tags. `sector` is relative to the mapped
    /// device; `iv_offset` is added to it for the IV.
    ///
    /// Data is copied before it is authenticated. The submitter may modify its pages at any time,
    /// and the tag would then not match the ciphertext.
    pub(crate) fn encrypt_with_tags(
        &self,
        sector: u64,
        iv_offset: u64,
        src: Segments<'_>,
        mut dst: SegmentsMut<'_>,
        tags: &mut [u8],
    ) -> BlkResult {
        let layout = self.layout.ok_or(BlkError::IOERR)?;

        match &self.kind {
            Kind::Plain(converter) => converter.encrypt_with_new_vectors(
                sector.wrapping_add(iv_offset),
                src,
                dst,
                tags,
                layout,
            ),
            Kind::Authenticated(authenticated) => {
                dst.copy_from(src).map_err(|_| BlkError::IOERR)?;
                authenticated.encrypt(sector, iv_offset, dst, tags)
            }
        }
    }

    /// As [`Cryptor::decrypt()`], but with tags.
    ///
    /// Returns [`Fault::Changed`] if a sector does not match its tag.
    pub(crate) fn decrypt_with_tags(
        &self,
        sector: u64,
        iv_offset: u64,
        data: SegmentsMut<'_>,
        tags: &[u8],
    ) -> Result<(), Fault> {
        let layout = self.layout.ok_or(BlkError::IOERR)?;

        match &self.kind {
            Kind::Plain(converter) => {
                let first_sector = sector.wrapping_add(iv_offset);
                Ok(converter.decrypt_with_vectors(first_sector, data, tags, layout)?)
            }
            Kind::Authenticated(authenticated) => {
                authenticated.decrypt(sector, iv_offset, data, tags)
            }
        }
    }
}
