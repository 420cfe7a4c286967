// SPDX-License-Identifier: GPL-2.0

//! What encrypts and decrypts: with or without authentication, and with or without tags.

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
    crypto::secret::Key, //
};

use crate::{
    authenticated::Authenticated,
    cipher::CipherSpec,
    convert::Converter,
    integrity::Layout,
    options::Options,
    table::KeyLayout, //
};

/// Everything that decides what a sector looks like on the device.
///
/// All that was made of the key is in here.
pub(crate) struct Cryptor {
    kind: Kind,
    /// Where things are beside a sector, if something is.
    layout: Option<Layout>,
}

enum Kind {
    Plain(KBox<Converter>),
    Authenticated(KBox<Authenticated>),
}

/// Why sectors could not be decrypted.
pub(crate) enum Fault {
    /// This one, or its tag, is not what was written. It is the number on the mapped device, in units
    /// of 512 bytes.
    Changed { sector: u64 },
    /// Something else.
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
    /// Allocates the ciphers and gives each its part of the key, which has `key_size_bytes`.
    ///
    /// Fails with dm-crypt's messages.
    pub(crate) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<Key>,
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

    /// Fits it to what the device keeps beside its sectors, if anything is to be kept there.
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

    /// Replaces the key by one of the same length. Allocates nothing.
    ///
    /// After a failure nothing is to be encrypted until this succeeds.
    pub(crate) fn set_key(&mut self, key: &Key) -> Result {
        match &mut self.kind {
            Kind::Plain(converter) => converter.set_key(key),
            Kind::Authenticated(authenticated) => authenticated.set_key(key),
        }
    }

    /// Returns what the key consists of.
    pub(crate) fn key_layout(&self) -> KeyLayout {
        match &self.kind {
            Kind::Plain(converter) => converter.key_layout(),
            Kind::Authenticated(authenticated) => authenticated.key_layout(),
        }
    }

    /// Returns whether a task may have to wait, so that nothing can be done in a softirq.
    pub(crate) fn may_sleep(&self) -> bool {
        match &self.kind {
            Kind::Plain(converter) => converter.may_sleep(),
            Kind::Authenticated(authenticated) => authenticated.may_sleep(),
        }
    }

    /// Encrypts `src` into `dst`, without tags. `first_sector` is what the IV of the first sector is
    /// made of.
    ///
    /// Fails with [`BlkError::IOERR`] if a sector is not in one piece of memory, or the cipher
    /// refuses it, and with [`BlkError::RESOURCE`] if memory is needed, there is none, and the caller
    /// must not sleep.
    ///
    /// Context: Task or softirq. In a task it may sleep.
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

    /// Decrypts `data` in place, without tags. Otherwise as [`Cryptor::encrypt()`].
    #[inline]
    pub(crate) fn decrypt(&self, first_sector: u64, data: SegmentsMut<'_>) -> BlkResult {
        match &self.kind {
            Kind::Plain(converter) => converter.decrypt(first_sector, data),
            Kind::Authenticated(_) => Err(BlkError::IOERR),
        }
    }

    /// As [`Cryptor::encrypt()`], and makes the tags. `sector` is that of the mapped device, to which
    /// `iv_offset` is added for the IV.
    ///
    /// What is authenticated is copied first: the writer might change it between two looks at it,
    /// and the tag would not be that of the data.
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

    /// As [`Cryptor::decrypt()`], by the tags.
    ///
    /// Fails with [`Fault::Changed`] if they are not those of the data.
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
