// SPDX-License-Identifier: GPL-2.0

//! Encryption of a bio with an AEAD cipher, sector by sector.
//!
//! ```text
//! | sector number, little endian | IV     |  sector               |  tag        |
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
            SegmentMut,
            SegmentsMut, //
        },
        dm::CtrError, //
    },
    crypto::{
        aead::{
            Aead,
            AuthencKey,
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
    iv::{
        iv_len,
        padded,
        xor,
        IvMode,
        Params,
        SectorMode,
        Tcw, //
    },
    options::Options,
    table::{
        Config,
        KeyLayout, //
    }, //
};

use super::Fault;

/// The AEAD cipher and the source of its IVs.
pub(crate) struct AeadFormat {
    cipher: Aead,
    iv: AeadIv,
    /// Set for a cipher with a separate authentication key.
    authenc_key: Option<AuthencKey>,
}

/// The source of the IVs.
enum AeadIv {
    Sector(SectorMode),
    /// Random IVs, stored beside the sectors.
    Stored,
    /// The TCW mode, which also whitens the ciphertext.
    Tcw(Tcw),
}

impl AeadFormat {
    /// Allocates the cipher and sets its key, of `key_size_bytes`. Also returns the parts of the
    /// key.
    ///
    /// Errors carry the messages of dm-crypt.
    pub(super) fn new(
        spec: &CipherSpec<'_>,
        key_size_bytes: u32,
        key: impl FnOnce() -> Result<SecretBytes>,
        options: &Options,
    ) -> Result<(Self, KeyLayout), CtrError> {
        const UNFIT: CtrError = CtrError::invalid(c"Error creating IV");
        let bad_key = |error| CtrError::new(c"Error decoding and setting key", error);

        let cipher = Aead::new(&spec.api_name)
            .map_err(|error| CtrError::new(c"Error allocating crypto tfm", error))?;
        let mode = IvMode::for_cipher(cipher.iv_size(), spec.iv_mode)?;
        let layout = KeyLayout {
            mac_size_bytes: match spec.digest_size {
                // The cipher has no separate authentication key.
                None => 0,
                Some(size) => options.integrity_key_size.unwrap_or(size),
            },
            // CAST: At most `MAX_IV_SIZE`.
            ..mode.key_layout(key_size_bytes, 1, cipher.iv_size() as u32)?
        };
        let key = key().map_err(bad_key)?;
        let (encryption, authentication) = layout.cipher_key_len().map_err(bad_key)?;
        let authenc_key = match spec.digest_size {
            None => None,
            Some(_) => Some(AuthencKey::new(encryption, authentication).map_err(bad_key)?),
        };
        let mut this = Self {
            cipher,
            iv: AeadIv::Stored,
            authenc_key,
        };
        this.set_cipher_key(&key, &layout).map_err(bad_key)?;

        let block_size = this.cipher.block_size();
        this.iv = match mode {
            IvMode::Random => AeadIv::Stored,
            IvMode::Sector(mode) => AeadIv::Sector(mode.for_block_size(block_size).ok_or(UNFIT)?),
            IvMode::Tcw => AeadIv::Tcw(
                Tcw::new(&Params {
                    key: key.as_bytes(),
                    extra_len: layout.extra_len(),
                    n_keys: 1,
                    iv_size: this.cipher.iv_size(),
                    block_size,
                    options,
                })
                .map_err(|error| CtrError::new(c"Error creating IV", error))?,
            ),
            // These modes need a cipher without authentication.
            IvMode::Eboiv | IvMode::Elephant | IvMode::Lmk => return Err(UNFIT),
        };
        Ok((this, layout))
    }

    /// Returns the length in bytes of the IV that is stored beside a sector, or 0.
    pub(super) fn stored_iv_len(&self) -> usize {
        match self.iv {
            AeadIv::Stored => iv_len(self.cipher.iv_size()),
            AeadIv::Sector(_) | AeadIv::Tcw(_) => 0,
        }
    }

    /// Sets the length of a tag in bytes.
    pub(super) fn set_tag_size(&mut self, bytes: usize) -> Result {
        self.cipher.set_tag_size(bytes)
    }

    /// Returns whether the cipher is asynchronous, so that a softirq cannot use it.
    pub(super) fn is_async(&self) -> bool {
        self.cipher.is_async()
    }

    /// See [`Format::set_key()`](super::Format::set_key).
    pub(super) fn set_key(&mut self, key: &SecretBytes, layout: &KeyLayout) -> Result {
        self.set_cipher_key(key, layout)?;
        match &mut self.iv {
            AeadIv::Tcw(mode) => mode.set_key(key.as_bytes()),
            AeadIv::Sector(_) | AeadIv::Stored => Ok(()),
        }
    }

    /// Sets the key of the cipher.
    fn set_cipher_key(&mut self, key: &SecretBytes, layout: &KeyLayout) -> Result {
        let (encryption, authentication) = layout.cipher_key_len()?;
        let (encryption, rest) = key.as_bytes().split_at_checked(encryption).ok_or(EINVAL)?;
        let authentication = rest.get(..authentication).ok_or(EINVAL)?;

        match &mut self.authenc_key {
            None => self.cipher.set_key(encryption),
            Some(authenc_key) => authenc_key.set(&mut self.cipher, encryption, authentication),
        }
    }

    /// Encrypts `data` in place and generates `tuples`. See [`Format::encrypt()`].
    ///
    /// [`Format::encrypt()`]: super::Format::encrypt
    pub(super) fn encrypt(
        &self,
        config: &Config,
        mut sector: u64,
        mut data: SegmentsMut<'_>,
        mut tuples: &mut [u8],
    ) -> BlkResult {
        let mut request = self
            .cipher
            .request(Gfp::noio_or_atomic())
            .map_err(|_| BlkError::RESOURCE)?;

        while let Some(mut data) = data.next_segment(config.options.sector_size) {
            let (tag, stored_iv) = config.tuple.next_mut(&mut tuples).ok_or(BlkError::IOERR)?;
            random::fill(stored_iv);
            self.with_inputs(config, sector, data.len(), stored_iv, |associated, iv| {
                request.encrypt(data.reborrow(), associated, iv, tag)
            })
            .and_then(|()| self.whiten(config, sector, &mut data))
            .map_err(|_| BlkError::IOERR)?;
            sector = sector.wrapping_add(config.options.sectors());
        }
        Ok(())
    }

    /// As [`AeadFormat::encrypt()`], but decrypts `data` in place and checks the tags in `tuples`.
    ///
    /// Returns [`Fault::Changed`] if a sector does not match its tag.
    pub(super) fn decrypt(
        &self,
        config: &Config,
        mut sector: u64,
        mut data: SegmentsMut<'_>,
        mut tuples: &[u8],
    ) -> Result<(), Fault> {
        let mut request = self
            .cipher
            .request(Gfp::noio_or_atomic())
            .map_err(|_| BlkError::RESOURCE)?;

        while let Some(mut data) = data.next_segment(config.options.sector_size) {
            let (tag, stored_iv) = config.tuple.next(&mut tuples).ok_or(BlkError::IOERR)?;
            let result = self.whiten(config, sector, &mut data).and_then(|()| {
                self.with_inputs(config, sector, data.len(), stored_iv, |associated, iv| {
                    request.decrypt(data.reborrow(), associated, iv, tag)
                })
            });
            match result {
                Err(EBADMSG) => return Err(Fault::Changed { sector }),
                result => result.map_err(|_| BlkError::IOERR)?,
            }
            sector = sector.wrapping_add(config.options.sectors());
        }
        Ok(())
    }

    /// Calls `work` with the associated data and the IV of a sector. `stored_iv` is empty unless
    /// IVs are stored.
    ///
    /// Returns [`EIO`] unless `len`, the contiguous bytes of the sector, is the sector size.
    #[inline]
    fn with_inputs(
        &self,
        config: &Config,
        sector: u64,
        len: u32,
        stored_iv: &[u8],
        work: impl FnOnce(&[u8], &[u8]) -> Result,
    ) -> Result {
        if len != config.options.sector_size.get() {
            return Err(EIO);
        }
        let iv_size = self.cipher.iv_size();
        let mut iv = match &self.iv {
            AeadIv::Sector(mode) => mode.generate(config.iv_sector(sector), iv_size),
            AeadIv::Stored => padded(stored_iv),
            AeadIv::Tcw(mode) => mode.iv(config.iv_sector(sector)),
        };
        let mut associated = [0; MAX_ASSOCIATED_SIZE];
        let number = sector.to_le_bytes();
        let (to_number, to_iv) = associated.split_at_mut(number.len());
        to_number.copy_from_slice(&number);
        for (to, from) in to_iv.iter_mut().zip(&iv) {
            *to = *from;
        }
        // Both contain key material from here on, see `IvOps::seed()`: no return before they are
        // wiped.
        if let AeadIv::Tcw(mode) = &self.iv {
            xor(&mut iv, mode.seed());
            xor(to_iv, mode.seed());
        }

        let associated_len = number.len().saturating_add(iv_len(iv_size));
        let result = work(
            associated.get(..associated_len).unwrap_or_default(),
            iv.get(..iv_size).unwrap_or_default(),
        );
        if let AeadIv::Tcw(_) = self.iv {
            memzero_explicit(&mut iv);
            memzero_explicit(&mut associated);
        }
        result
    }

    /// Whitens the ciphertext of a sector, or reverts that, in the TCW mode.
    #[inline]
    fn whiten(&self, config: &Config, sector: u64, data: &mut SegmentMut<'_>) -> Result {
        match &self.iv {
            AeadIv::Tcw(mode) => mode.whiten(config.iv_sector(sector), data),
            AeadIv::Sector(_) | AeadIv::Stored => Ok(()),
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_aead)]
mod tests {
    use super::*;

    use core::num::NonZeroU32;

    use kscale::block::bio::{
        Buffer,
        IntegrityProfile, //
    };

    use crate::{
        format::Format,
        table::testing::config, //
    };

    const GCM: &CStr = c"capi:gcm(aes)-random";
    const TCW: &CStr = c"capi:authenc(hmac(sha256),cbc(aes))-tcw";

    /// Bytes of the data.
    const LEN: u32 = 4096;

    struct Device {
        format: Format,
        config: Config,
    }

    impl Device {
        /// Returns a device of a line with the given cipher, options and key.
        fn new(cipher: &CStr, options: &[&'static CStr], key: &SecretBytes) -> Result<Self> {
            let new = || -> Result<Self, CtrError> {
                let options = Options::parse(options.iter().copied(), LEN.into())?;
                let spec = CipherSpec::parse(cipher, true)?;
                let len = key.as_bytes().len() as u32;
                let own = || SecretBytes::new(key.as_bytes());
                let (mut format, layout) = Format::new(&spec, len, own, &options)?;
                let profile = IntegrityProfile {
                    tuple_size: NonZeroU32::new(32).ok_or(EINVAL)?,
                    interval: options.sector_size.get(),
                    is_protection: false,
                };
                let tuple = format.bind_integrity_profile(Some(profile), &options)?;
                let mut config = config(options, layout)?;
                config.tuple = tuple.ok_or(EINVAL)?;
                Ok(Self { format, config })
            };
            new().map_err(|error| error.error())
        }

        /// Encrypts `plain` from `sector` on.
        fn encrypt(&self, sector: u64, plain: &Buffer, tuples: &mut [u8]) -> Result<Buffer> {
            let mut encrypted = Buffer::new(&[], 0)?;
            plain
                .with_segments(LEN, |src| {
                    encrypted.with_segments_mut(LEN, |dst| {
                        self.format.encrypt(&self.config, sector, src, dst, tuples)
                    })
                })
                .map_err(|_| EIO)?;
            Ok(encrypted)
        }

        /// Decrypts `data` in place. Returns the first changed sector, or [`None`].
        fn decrypt(&self, sector: u64, data: &mut Buffer, tuples: &[u8]) -> Result<Option<u64>> {
            data.with_segments_mut(LEN, |data| {
                match self.format.decrypt(&self.config, sector, data, tuples) {
                    Ok(()) => Ok(None),
                    Err(Fault::Changed { sector }) => Ok(Some(sector)),
                    Err(Fault::Other(_)) => Err(EIO),
                }
            })
        }
    }

    /// Returns a key of `len` equal bytes.
    fn key(byte: u8, len: usize) -> Result<SecretBytes> {
        SecretBytes::new(&KVec::from_elem(byte, len, GFP_KERNEL)?)
    }

    /// The tag covers the number of a sector in units of 512 bytes, relative to the target.
    #[test]
    fn tags_depend_neither_on_iv_offset_nor_on_iv_large_sectors() -> Result {
        const OPTIONS: &[&CStr] = &[c"2", c"integrity:28:aead", c"sector_size:1024"];
        const LARGE: &[&CStr] = &[
            c"3",
            c"integrity:28:aead",
            c"sector_size:1024",
            c"iv_large_sectors",
        ];
        let key = key(1, 32)?;
        let writer = Device::new(GCM, OPTIONS, &key)?;
        let mut with_offset = Device::new(GCM, OPTIONS, &key)?;
        with_offset.config.iv_offset = 8;
        let large = Device::new(GCM, LARGE, &key)?;
        let plain = Buffer::new(&[], 0)?;

        for reader in [&with_offset, &large] {
            let mut tuples = [0; 4 * 32];
            let mut data = writer.encrypt(6, &plain, &mut tuples)?;
            assert_eq!(reader.decrypt(6, &mut data, &tuples)?, None);
            let decrypted = data.contents(0, LEN as usize)?;
            assert!(decrypted.iter().all(|&byte| byte == 0));

            // The third sector is reported by the same number.
            let mut data = writer.encrypt(6, &plain, &mut tuples)?;
            tuples[2 * 32] ^= 1;
            assert_eq!(reader.decrypt(6, &mut data, &tuples)?, Some(10));
        }
        Ok(())
    }

    /// A cipher without an authentication key gets the whole key.
    #[test]
    fn integrity_key_size_may_be_given_for_any_cipher() -> Result {
        const OPTIONS: &[&CStr] = &[c"1", c"integrity:28:aead"];
        const KEY_SIZE: &[&CStr] = &[c"2", c"integrity:28:aead", c"integrity_key_size:16"];
        let key = key(1, 32)?;
        let (plain, mut tuples) = (Buffer::new(&[], 0)?, [0; 8 * 32]);

        let mut data = Device::new(GCM, OPTIONS, &key)?.encrypt(0, &plain, &mut tuples)?;
        let reader = Device::new(GCM, KEY_SIZE, &key)?;
        assert_eq!(reader.decrypt(0, &mut data, &tuples)?, None);
        Ok(())
    }

    #[test]
    fn new_key_replaces_all_derived_data() -> Result {
        const OPTIONS: &[&CStr] = &[c"1", c"integrity:32:aead"];
        // The keys of the cipher and of the digest, and both seeds.
        const KEY_LEN: usize = 32 + 32 + 32;
        let (first, second) = (key(1, KEY_LEN)?, key(2, KEY_LEN)?);
        let plain = Buffer::new(&[], 0)?;
        let (mut tuples, mut expected) = ([0; 8 * 32], [0; 8 * 32]);

        let mut device = Device::new(TCW, OPTIONS, &first)?;
        let layout = device.config.key_layout;
        device.format.set_key(&second, &layout)?;
        let changed = device.encrypt(7, &plain, &mut tuples)?;
        let fresh = Device::new(TCW, OPTIONS, &second)?.encrypt(7, &plain, &mut expected)?;
        let len = LEN as usize;
        assert!(*changed.contents(0, len)? == *fresh.contents(0, len)?);
        assert!(tuples == expected);
        Ok(())
    }
}
