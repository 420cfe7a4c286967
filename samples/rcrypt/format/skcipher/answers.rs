// SPDX-License-Identifier: GPL-2.0

//! Known-answer tests: sectors encrypted by other implementations.

use kernel::prelude::*;

#[kunit_tests(rcrypt_skcipher)]
mod tests {
    use super::super::*;

    use kernel::str::CString;

    use core::num::NonZeroU32;

    use kscale::{
        block::bio::{
            Buffer,
            IntegrityProfile,
            SECTOR_SIZE, //
        },
        lib::crc32::crc32, //
    };

    use crate::{
        format::Format,
        table::testing::config, //
    };

    /// A sector and its encrypted form.
    struct Vector {
        cipher: &'static CStr,
        key_len: usize,
        sector_size: u32,
        sector: u64,
        /// The first 16 bytes of the encrypted sector.
        start: u128,
        /// The CRC-32 of the whole encrypted sector.
        sum: u32,
    }

    const SECTOR: u64 = 0x12_3456_789a;
    const HIGH_SECTOR: u64 = 0xfedc_ba98_7654_3210;

    const fn vector(
        cipher: &'static CStr,
        key_len: usize,
        sector_size: u32,
        sector: u64,
        start: u128,
        sum: u32,
    ) -> Vector {
        Vector {
            cipher,
            key_len,
            sector_size,
            sector,
            start,
            sum,
        }
    }

    /// Computed by a Python script with AES from `cryptography` and `zlib.crc32()`.
    ///
    /// `hashlib` does not expose the state of MD5, so the script implements MD5 from RFC 1321; the
    /// result was compared with `hashlib`. Without a seed, the vector of lmk is `hashlib.md5()` of
    /// the data from byte 16 on, followed by seven bytes of the sector number. Byte `i` of the data
    /// is `i * 7 % 251`, byte `i` of the key is `i * 3 + 1`.
    #[rustfmt::skip]
    const VECTORS: [Vector; 16] = [
        vector(c"aes-cbc-eboiv", 32, 512, SECTOR, 0xab095f81836f15ed0cc724df4de23c38, 0x1a9e_f4b8),
        vector(c"aes-cbc-eboiv", 32, 4096, SECTOR, 0x91720033cfe3dc39532d3e173c3b04de, 0x6cfa_a977),
        // eboiv encrypts the vector with the cipher itself, not with a single block of AES.
        vector(c"aes-xts-eboiv", 64, 512, SECTOR, 0xbe8b95d2fbc4d82481dac526147e92a1, 0xfc35_9bf8),
        vector(c"aes-xts-eboiv", 64, 4096, SECTOR, 0x2511dd4a85ea625bea691daa5e0b85f8, 0x2ed4_91e7),
        // The second key encrypts the sector, the first key encrypts its vector.
        vector(c"aes:2-cbc-eboiv", 64, 512, SECTOR + 1, 0x86f902d9c945195d4320172f42a8f9c6, 0xd4ec_4bec),
        vector(c"aes-cbc-elephant", 32, 512, SECTOR, 0xe93757a83a3350bb4cd11fdb98fe84b8, 0x8dac_f40d),
        vector(c"aes-cbc-elephant", 32, 4096, SECTOR, 0x818a38c7717ee708963c2cfda0c66146, 0xa59c_6bb7),
        vector(c"aes-cbc-elephant", 64, 512, SECTOR, 0xbc46ebaee9b7cd63de171835ffeddc5b, 0xa99a_05e7),
        vector(c"aes-cbc-elephant", 64, 4096, SECTOR, 0x3606ea46fb6760aae24abdb0422b0a7a, 0x322c_c158),
        vector(c"aes-cbc-lmk", 16, 512, SECTOR, 0xae0a05d0990d891cd59c9d7b8d2a525e, 0x45a2_59cd),
        vector(c"aes:64-cbc-lmk", 64 * 16, 512, SECTOR, 0xea2dfe521ffa86c68c7f09f85b202ccc, 0xa8ce_4ea0),
        // lmk uses only 56 bits of the sector number.
        vector(c"capi:cbc(aes)-lmk", 64 * 16, 512, HIGH_SECTOR, 0x5d3174075b8a8d362bc6491a45b4e532, 0x394c_9022),
        vector(c"aes:64-cbc-lmk", 65 * 16, 512, SECTOR, 0xe167b7e6b8264825ee3fd9664e7f60b3, 0x696f_4a8b),
        // The remainder of the division is ignored, and the seed is not the last part of the key.
        vector(c"capi:cbc(aes)-lmk", 65 * 16 + 3, 512, SECTOR, 0xe167b7e6b8264825ee3fd9664e7f60b3, 0x696f_4a8b),
        vector(c"aes-cbc-tcw", 64, 512, SECTOR, 0xb7b2e1463b282309586b96ed5830eb25, 0x2d3b_e6a7),
        vector(c"capi:cbc(aes)-tcw", 48, 512, HIGH_SECTOR, 0x38af7e30a27f378933918d4a43343755, 0x186f_4025),
    ];

    /// Returns the test key of `len` bytes.
    fn key(len: usize) -> Result<SecretBytes> {
        let mut key = KVec::zeroed(len, GFP_KERNEL)?;

        for (i, byte) in key.iter_mut().enumerate() {
            *byte = (i * 3 + 1) as u8;
        }
        SecretBytes::new(&key)
    }

    /// The format of a device with one table line.
    struct Device {
        format: Format,
        config: Config,
    }

    impl Device {
        fn new(cipher: &CStr, key: SecretBytes, sector_size: u32) -> Result<Self, CtrError> {
            let spec = CipherSpec::parse(cipher, false)?;
            let options = Options {
                sector_size: NonZeroU32::new(sector_size).ok_or(EINVAL)?,
                ..Options::DEFAULT
            };
            let len = key.as_bytes().len() as u32;
            let (format, layout) = Format::new(&spec, len, || Ok(key), &options)?;

            Ok(Self {
                format,
                config: config(options, layout)?,
            })
        }

        /// Encrypts the first `len` bytes of a page.
        fn encrypt(&self, sector: u64, src: &Buffer, dst: &mut Buffer, len: u32) -> BlkResult {
            src.with_segments(len, |src| {
                dst.with_segments_mut(len, |dst| {
                    self.format.encrypt(&self.config, sector, src, dst, &mut [])
                })
            })
        }

        /// Decrypts the first `len` bytes of a page in place.
        fn decrypt(&self, sector: u64, data: &mut Buffer, len: u32) -> BlkResult {
            data.with_segments_mut(len, |data| {
                Ok(self.format.decrypt(&self.config, sector, data, &[])?)
            })
        }
    }

    /// Bytes of a page.
    const PAGE_LEN: u32 = 4096;

    /// Returns the test data.
    fn data() -> Result<KVec<u8>> {
        let mut data = KVec::zeroed(PAGE_LEN as usize, GFP_KERNEL)?;

        for (i, byte) in data.iter_mut().enumerate() {
            *byte = (i * 7 % 251) as u8;
        }
        Ok(data)
    }

    /// Returns a page with the test data.
    fn page() -> Result<Buffer> {
        Buffer::new(&data()?, 0)
    }

    /// Returns the contents of a page.
    fn contents(page: &Buffer) -> Result<KVec<u8>> {
        page.contents(0, PAGE_LEN as usize)
    }

    /// The IMA data of a table has it, also if the cipher has no such key.
    #[test]
    fn length_of_the_authentication_key_may_be_given() -> Result {
        const XTS: &CStr = c"aes-xts-plain64";
        const AUTHENC: &CStr = c"capi:authenc(hmac(sha256),xts(aes))-random";
        const AEAD: &CStr = c"integrity:48:aead";
        // Cipher, options, length of both keys, length of the authentication key.
        let rows: [(&CStr, &[&CStr], usize, u32); 4] = [
            (XTS, &[], 64, 0),
            (XTS, &[c"1", c"integrity_key_size:16"], 64, 16),
            (AUTHENC, &[c"1", AEAD], 96, 32),
            (AUTHENC, &[c"2", AEAD, c"integrity_key_size:64"], 128, 64),
        ];

        for (cipher, options, len, mac_len) in rows {
            let layout = || -> Result<_, CtrError> {
                let options = Options::parse(options.iter().copied(), 8)?;
                let spec = CipherSpec::parse(cipher, options.is_aead())?;
                // CAST: At most 128.
                Ok(Format::new(&spec, len as u32, || key(len), &options)?.1)
            };
            let layout = layout().map_err(|error| error.error())?;
            assert_eq!(layout.mac_size_bytes, mac_len);
        }
        Ok(())
    }

    #[test]
    fn known_answers() -> Result {
        for vector in &VECTORS {
            let len = vector.sector_size as usize;
            let device = Device::new(vector.cipher, key(vector.key_len)?, vector.sector_size)
                .map_err(|error| error.error())?;
            let (plain, mut buffer) = (page()?, Buffer::new(&[0xee; PAGE_LEN as usize], 0)?);

            let result = device.encrypt(vector.sector, &plain, &mut buffer, vector.sector_size);
            assert!(result.is_ok());
            // Encryption does not change its input.
            assert!(*contents(&plain)? == *data()?);
            let written = contents(&buffer)?;
            let (encrypted, rest) = written.split_at(len);
            assert_eq!(encrypted.first_chunk(), Some(&vector.start.to_be_bytes()));
            assert_eq!(!crc32(!0, encrypted), vector.sum);
            assert!(rest.iter().all(|&byte| byte == 0xee));

            let result = device.decrypt(vector.sector, &mut buffer, vector.sector_size);
            assert!(result.is_ok());
            let written = contents(&buffer)?;
            let (decrypted, rest) = written.split_at(len);
            assert!(*decrypted == data()?[..len]);
            assert!(rest.iter().all(|&byte| byte == 0xee));
        }
        Ok(())
    }

    /// Tests ciphers with requests outside the stack. `lmk` is excluded: the kernel would try to
    /// load a module four times for each of its 64 ciphers.
    #[test]
    fn modes_wait_for_asynchronous_ciphers() -> Result {
        let cipher = Skcipher::new(c"cbc(aes)")?;
        let driver = cipher.driver_name().to_str().map_err(|_| EINVAL)?;

        for (mode, key_len) in [
            ("plain64", 32),
            ("eboiv", 32),
            ("elephant", 32),
            ("tcw", 64),
        ] {
            let name = CString::try_from_fmt(fmt!("aes-cbc-{mode}"))?;
            let now = Device::new(&name, key(key_len)?, 512).map_err(|error| error.error())?;
            // cryptd wraps a driver, not an algorithm.
            let name = CString::try_from_fmt(fmt!("capi:cryptd({driver})-{mode}"))?;
            let later = Device::new(&name, key(key_len)?, 512).map_err(|error| error.error())?;
            assert!(later.format.may_sleep());
            let (plain, mut a, mut b) = (page()?, page()?, page()?);

            assert!(now.encrypt(SECTOR, &plain, &mut a, 512).is_ok());
            assert!(later.encrypt(SECTOR, &plain, &mut b, 512).is_ok());
            assert!(*contents(&a)? == *contents(&b)?);
            assert!(later.decrypt(SECTOR, &mut b, 512).is_ok());
            assert!(*contents(&b)? == *data()?);
        }
        Ok(())
    }

    /// A softirq must not use the others.
    #[test]
    fn modes_that_allocate_memory_and_asynchronous_ciphers_may_sleep() -> Result {
        let cipher = Skcipher::new(c"cbc(aes)")?;
        let driver = cipher.driver_name().to_str().map_err(|_| EINVAL)?;
        let random = CString::try_from_fmt(fmt!("capi:cryptd({driver})-random"))?;

        for (name, key_len, may_sleep) in [
            (c"aes-cbc-plain64", 32, cipher.may_sleep()),
            (c"aes-cbc-tcw", 64, cipher.may_sleep()),
            (c"aes-cbc-eboiv", 32, true),
            (c"aes-cbc-elephant", 32, true),
            (&*random, 32, true),
        ] {
            let device = Device::new(name, key(key_len)?, 512).map_err(|error| error.error())?;
            assert_eq!(device.format.may_sleep(), may_sleep);
        }
        Ok(())
    }

    /// Checks the state that is carried from one sector to the next.
    #[test]
    fn sectors_do_not_depend_on_their_bio() -> Result {
        let driver = Skcipher::new(c"xts(aes)")?;
        let driver = driver.driver_name().to_str().map_err(|_| EINVAL)?;
        let later = CString::try_from_fmt(fmt!("capi:cryptd({driver})-plain64"))?;

        for (cipher, key_len, sector_size, iv_large_sectors) in [
            (c"aes-xts-plain64", 64, 512, false),
            (c"aes-xts-plain64", 64, 1024, false),
            (c"aes-xts-plain64", 64, 1024, true),
            (&*later, 64, 512, false),
            (&*later, 64, 1024, true),
            (c"aes:2-cbc-plain64", 64, 512, false),
            (c"aes:4-cbc-plain64be", 64, 512, false),
            (c"aes:2-cbc-eboiv", 64, 512, false),
            (c"aes:2-cbc-eboiv", 64, 1024, true),
            (c"aes-cbc-elephant", 64, 512, false),
            (c"aes:64-cbc-lmk", 65 * 16, 512, false),
            (c"aes-cbc-tcw", 64, 512, false),
        ] {
            let mut device =
                Device::new(cipher, key(key_len)?, sector_size).map_err(|error| error.error())?;
            device.config.options.iv_large_sectors = iv_large_sectors;
            let sectors = sector_size / SECTOR_SIZE;
            let plain = page()?;

            // The second start makes the sector number wrap in the middle of the page.
            for first in [
                SECTOR & !7,
                u64::from(sectors).wrapping_mul(2).wrapping_neg(),
            ] {
                let mut whole = Buffer::new(&[], 0)?;
                let result = device.encrypt(first, &plain, &mut whole, PAGE_LEN);
                assert!(result.is_ok());

                for (n, part) in (0..PAGE_LEN).step_by(sector_size as usize).enumerate() {
                    let sector = first.wrapping_add(n as u64 * u64::from(sectors));
                    let (from, len) = (part as usize, sector_size as usize);
                    let one = Buffer::new(&data()?[from..from + len], 0)?;
                    let mut expected = Buffer::new(&[], 0)?;
                    let result = device.encrypt(sector, &one, &mut expected, sector_size);
                    assert!(result.is_ok());
                    assert!(*whole.contents(from, len)? == *expected.contents(0, len)?);
                }
                assert!(device.decrypt(first, &mut whole, PAGE_LEN).is_ok());
                assert!(*contents(&whole)? == *data()?);
            }
        }
        Ok(())
    }

    #[test]
    fn partial_sectors_are_refused() -> Result {
        let driver = Skcipher::new(c"xts(aes)")?;
        let driver = driver.driver_name().to_str().map_err(|_| EINVAL)?;
        let later = CString::try_from_fmt(fmt!("capi:cryptd({driver})-plain64"))?;
        let plain = page()?;

        for cipher in [c"aes-xts-plain64", &later, c"aes-xts-eboiv"] {
            let device = Device::new(cipher, key(64)?, 1024).map_err(|error| error.error())?;
            let mut to = Buffer::new(&[], 0)?;

            for len in [512, 1536] {
                let result = device.encrypt(0, &plain, &mut to, len);
                assert!(result == Err(BlkError::IOERR));
                let result = device.decrypt(0, &mut to, len);
                assert!(result == Err(BlkError::IOERR));
            }
            // `src` and `dst` have different lengths.
            for (src_len, dst_len) in [(1024, 2048), (2048, 1024), (1024, 0), (0, 1024)] {
                let result = plain.with_segments(src_len, |src| {
                    to.with_segments_mut(dst_len, |dst| {
                        device.format.encrypt(&device.config, 0, src, dst, &mut [])
                    })
                });
                assert!(result == Err(BlkError::IOERR));
            }
            assert!(device.encrypt(0, &plain, &mut to, 0).is_ok());
        }
        Ok(())
    }

    #[test]
    fn unfit_modes_are_refused_as_by_dm_crypt() -> Result {
        const CREATING: Option<&CStr> = Some(c"Error creating IV");
        const KEY: Option<&CStr> = Some(c"Error decoding and setting key");

        for (cipher, key_len, sector_size, message) in [
            (c"aes-cbc-lmk", 16, 1024, CREATING),
            (c"aes-cbc-tcw", 48, 1024, CREATING),
            // No bytes are left for the cipher key, or the key is even shorter.
            (c"aes-cbc-tcw", 32, 512, KEY),
            (c"aes-cbc-tcw", 31, 512, KEY),
            (c"aes:64-cbc-lmk", 64 * 16 - 1, 512, KEY),
            // Cipher keys of 20 bytes, and an odd number of bytes (66 / 2 = 33).
            (c"aes-cbc-elephant", 40, 512, KEY),
            (c"aes-cbc-elephant", 66, 512, None),
        ] {
            let error = Device::new(cipher, key(key_len)?, sector_size).err();

            assert_eq!(error.as_ref().map(|error| error.error()), Some(EINVAL));
            assert!(error.and_then(|error| error.message()) == message);
        }
        Ok(())
    }

    /// Checks that `set_key()` replaces all data derived from the key.
    #[test]
    fn new_key_replaces_all_derived_data() -> Result {
        for vector in &VECTORS {
            let other = SecretBytes::from_hex(&[b'5'; 2 * 2048][..2 * vector.key_len])?;
            let mut device = Device::new(vector.cipher, other, vector.sector_size)
                .map_err(|error| error.error())?;
            let (plain, mut buffer) = (page()?, page()?);

            let layout = device.config.key_layout;
            device.format.set_key(&key(vector.key_len)?, &layout)?;
            let result = device.encrypt(vector.sector, &plain, &mut buffer, vector.sector_size);
            assert!(result.is_ok());
            let encrypted = buffer.contents(0, vector.sector_size as usize)?;
            assert_eq!(!crc32(!0, &encrypted), vector.sum);
        }
        Ok(())
    }

    #[test]
    fn only_random_ivs_are_stored() -> Result {
        for (cipher, is_stored) in [(c"aes-xts-random", true), (c"aes-xts-plain64", false)] {
            let device = Device::new(cipher, key(64)?, 512).map_err(|error| error.error())?;
            assert_eq!(matches!(device.format, Format::StoredIv(_)), is_stored);
        }
        Ok(())
    }

    #[test]
    fn stored_ivs_decrypt_their_sectors() -> Result {
        let mut device = Device::new(c"aes-xts-random", key(64)?, 512).map_err(|e| e.error())?;
        let profile = IntegrityProfile {
            tuple_size: NonZeroU32::new(16).ok_or(EINVAL)?,
            interval: 512,
            is_protection: false,
        };
        device.config.tuple = device
            .format
            .bind_integrity_profile(Some(profile), &device.config.options)
            .map_err(|error| error.error())?
            .ok_or(EINVAL)?;
        let (plain, mut buffer, mut tuples) = (page()?, page()?, [0; 32]);

        let result = plain.with_segments(1024, |src| {
            buffer.with_segments_mut(1024, |dst| {
                device
                    .format
                    .encrypt(&device.config, 7, src, dst, &mut tuples)
            })
        });
        assert!(result.is_ok());
        assert!(tuples[..16] != tuples[16..]);
        assert!(*contents(&buffer)? != *data()?);

        let result = buffer.with_segments_mut(1024, |data| {
            let result = device.format.decrypt(&device.config, 7, data, &tuples);
            BlkResult::Ok(result?)
        });
        assert!(result.is_ok());
        assert!(*contents(&buffer)? == *data()?);

        // The device returned too few bytes.
        let result = buffer.with_segments_mut(1024, |data| {
            let result = device
                .format
                .decrypt(&device.config, 7, data, &tuples[..16]);
            BlkResult::Ok(result?)
        });
        assert!(result == Err(BlkError::IOERR));
        Ok(())
    }
}
