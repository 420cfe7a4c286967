// SPDX-License-Identifier: GPL-2.0

//! Tests of authenticated ciphers with known answers.

use kernel::prelude::*;

#[kunit_tests(kscale_aead)]
mod tests {
    use super::*;

    use super::super::{
        digest_size,
        Aead,
        AuthencKey,
        Request,
        MAX_ASSOCIATED_SIZE,
        MAX_TAG_SIZE, //
    };
    use crate::{
        block::bio::Buffer,
        crypto::{
            request_buf,
            secret::SecretBytes, //
        },
        mm::gfp::Gfp, //
    };

    use kernel::str::CString;

    /// Known answers, in hexadecimal.
    struct Vector {
        cipher: &'static CStr,
        key: &'static [u8],
        /// The authentication key of `authenc()`.
        mac_key: Option<&'static [u8]>,
        iv: &'static [u8],
        associated: &'static [u8],
        plaintext: &'static [u8],
        ciphertext: &'static [u8],
        tag: &'static [u8],
    }

    const VECTORS: [Vector; 2] = [
        // McGrew and Viega, test case 4.
        Vector {
            cipher: c"gcm(aes)",
            key: b"feffe9928665731c6d6a8f9467308308",
            mac_key: None,
            iv: b"cafebabefacedbaddecaf888",
            associated: b"feedfacedeadbeeffeedfacedeadbeefabaddad2",
            plaintext: b"d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                           1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            ciphertext: b"42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
                            21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091",
            tag: b"5bc94fbc3221a5db94fae95ae7121a47",
        },
        // XTS as in IEEE P1619, and RFC 4868 of the associated data and the ciphertext.
        Vector {
            cipher: c"authenc(hmac(sha256),xts(aes))",
            key: b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                   202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
            mac_key: Some(b"a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf"),
            iv: b"000102030405060708090a0b0c0d0e0f",
            associated: b"404142434445464748494a4b4c4d4e4f5051525354555657",
            plaintext: b"00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9\
                           e0e7eef501080f161d242b323940474e555c636a71787f868d949ba2a9b0b7be",
            ciphertext: b"16fd7d7b56b49ac6a7ec24d98fa3f1e9411a324d5f3f2a9d19a67c9d4efd4572\
                            4689dc927f502a3a17cf4dba672f9996133b45c1702f9b66cf20e7b39cd0e21e",
            tag: b"db7bc3575598fd78527043fb2f9171c328146c72128650a4125e5b34056352c1",
        },
    ];

    /// Returns the cipher of `vector` with its key.
    fn cipher(vector: &Vector) -> Result<Aead> {
        let mut cipher = Aead::new(vector.cipher)?;

        set_key(&mut cipher, vector)?;
        Ok(cipher)
    }

    /// As [`cipher()`], but asynchronous: cryptd wraps implementations, not ciphers.
    fn later(vector: &Vector) -> Result<Aead> {
        let cipher = Aead::new(vector.cipher)?;
        let driver = cipher.driver_name().to_str().map_err(|_| EINVAL)?;
        let mut later = Aead::new(&CString::try_from_fmt(fmt!("cryptd({driver})"))?)?;

        set_key(&mut later, vector)?;
        if later.is_async() {
            Ok(later)
        } else {
            Err(EINVAL)
        }
    }

    fn set_key(cipher: &mut Aead, vector: &Vector) -> Result {
        let key = SecretBytes::from_hex(vector.key)?;

        match vector.mac_key {
            None => cipher.set_key(key.as_bytes())?,
            Some(mac_key) => {
                let mac_key = SecretBytes::from_hex(mac_key)?;
                AuthencKey::new(key.as_bytes().len(), mac_key.as_bytes().len())?.set(
                    cipher,
                    key.as_bytes(),
                    mac_key.as_bytes(),
                )?;
            }
        }
        Ok(())
    }

    /// The inputs of an encryption.
    struct Message {
        data: Buffer,
        len: u32,
        associated: SecretBytes,
        iv: SecretBytes,
        tag: KVec<u8>,
    }

    impl Message {
        /// Stores the plaintext of `vector` at an offset in a page.
        fn new(vector: &Vector) -> Result<Self> {
            let plaintext = SecretBytes::from_hex(vector.plaintext)?;

            Ok(Self {
                data: Buffer::new(plaintext.as_bytes(), 512)?,
                len: plaintext.as_bytes().len() as u32,
                associated: SecretBytes::from_hex(vector.associated)?,
                iv: SecretBytes::from_hex(vector.iv)?,
                tag: KVec::zeroed(vector.tag.len() / 2, GFP_KERNEL)?,
            })
        }

        fn encrypt(&mut self, request: &mut Request<'_>) -> Result {
            request.encrypt(
                self.data.segment_mut(512, self.len)?,
                self.associated.as_bytes(),
                self.iv.as_bytes(),
                &mut self.tag,
            )
        }

        fn decrypt(&mut self, request: &mut Request<'_>) -> Result {
            request.decrypt(
                self.data.segment_mut(512, self.len)?,
                self.associated.as_bytes(),
                self.iv.as_bytes(),
                &self.tag,
            )
        }

        fn contents(&self) -> Result<KVec<u8>> {
            self.data.contents(512, self.len as usize)
        }
    }

    #[test]
    fn known_answers() -> Result {
        check_answers(cipher)
    }

    /// Compares the results of the cipher that `make` returns with the known answers.
    fn check_answers(make: fn(&Vector) -> Result<Aead>) -> Result {
        for vector in &VECTORS {
            let cipher = make(vector)?;
            let mut request = cipher.request(Gfp::KERNEL)?;
            let plaintext = SecretBytes::from_hex(vector.plaintext)?;
            let ciphertext = SecretBytes::from_hex(vector.ciphertext)?;
            let tag = SecretBytes::from_hex(vector.tag)?;
            let mut message = Message::new(vector)?;

            // A request is used several times.
            for _ in 0..3 {
                message.encrypt(&mut request)?;
                assert!(*message.contents()? == *ciphertext.as_bytes());
                assert!(*message.tag == *tag.as_bytes());
                message.decrypt(&mut request)?;
                assert!(*message.contents()? == *plaintext.as_bytes());
            }
            // The rest of the page did not change.
            assert!(*message.data.contents(0, 512)? == [0; 512]);
            let end = 512 + message.len as usize;
            assert!(*message.data.contents(end, 512)? == [0; 512]);
        }
        Ok(())
    }

    #[test]
    fn known_answers_of_async_ciphers() -> Result {
        check_answers(later)
    }

    /// A driver would fail other requests when it has no room.
    #[test]
    fn requests_may_be_backlogged() -> Result {
        for make in [cipher, later] {
            let cipher = make(&VECTORS[0])?;
            assert!(cipher.request(Gfp::KERNEL)?.may_backlog());
        }
        Ok(())
    }

    #[test]
    fn sync_ciphers_are_preferred() -> Result {
        let [vector, ..] = &VECTORS;
        // An instance of cryptd() has the higher priority.
        let _later = later(vector)?;

        assert!(!cipher(vector)?.is_async());
        Ok(())
    }

    #[test]
    fn modified_messages_fail_authentication() -> Result {
        for vector in &VECTORS {
            let cipher = cipher(vector)?;
            let mut request = cipher.request(Gfp::KERNEL)?;

            for changed in 0..4 {
                let mut message = Message::new(vector)?;
                message.encrypt(&mut request)?;
                let flip = |key: &SecretBytes| {
                    let mut bytes = KVec::new();
                    bytes.extend_from_slice(key.as_bytes(), GFP_KERNEL)?;
                    if let Some(last) = bytes.last_mut() {
                        *last ^= 1;
                    }
                    SecretBytes::new(&bytes)
                };
                match changed {
                    0 => {
                        let mut bytes = message.contents()?;
                        bytes[0] ^= 0x80;
                        message.data = Buffer::new(&bytes, 512)?;
                    }
                    1 => message.associated = flip(&message.associated)?,
                    2 => {
                        let last = message.tag.len() - 1;
                        message.tag[last] ^= 1;
                    }
                    // `authenc()` authenticates the initialisation vector only as a part of the
                    // data.
                    _ if vector.mac_key.is_some() => continue,
                    _ => message.iv = flip(&message.iv)?,
                }
                assert_eq!(message.decrypt(&mut request), Err(EBADMSG));
            }
        }
        Ok(())
    }

    #[test]
    fn truncated_tags_are_supported() -> Result {
        let [vector, ..] = &VECTORS;
        let mut cipher = cipher(vector)?;
        let tag = SecretBytes::from_hex(vector.tag)?;
        assert_eq!(cipher.tag_size(), 16);

        for refused in [0, 3, 17, MAX_TAG_SIZE + 1, usize::MAX] {
            assert!(cipher.set_tag_size(refused).is_err());
            assert_eq!(cipher.tag_size(), 16);
        }
        cipher.set_tag_size(12)?;
        assert_eq!(cipher.tag_size(), 12);
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut message = Message::new(vector)?;
        assert_eq!(message.encrypt(&mut request), Err(EINVAL));
        message.tag.truncate(12);
        message.encrypt(&mut request)?;
        assert!(*message.tag == tag.as_bytes()[..12]);
        message.decrypt(&mut request)
    }

    #[test]
    fn associated_data_may_be_missing() -> Result {
        for vector in &VECTORS {
            let cipher = cipher(vector)?;
            let mut request = cipher.request(Gfp::KERNEL)?;
            let mut message = Message::new(vector)?;
            let plaintext = message.contents()?;

            message.associated = SecretBytes::new(&[])?;
            message.encrypt(&mut request)?;
            message.decrypt(&mut request)?;
            assert!(*message.contents()? == *plaintext);
        }
        Ok(())
    }

    #[test]
    fn bad_lengths() -> Result {
        let [_, vector, ..] = &VECTORS;
        let cipher = cipher(vector)?;
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut data = Buffer::new(&[1; 512], 0)?;
        let bytes = [0; MAX_ASSOCIATED_SIZE + 1];

        // Lengths of the data, the associated data, the initialisation vector and the tag.
        for (len, associated, iv, tag) in [
            (500, 8, 16, 32),
            (512, MAX_ASSOCIATED_SIZE + 1, 16, 32),
            (512, 8, 15, 32),
            (512, 8, 0, 32),
            (512, 8, 33, 32),
            (512, 8, 16, 31),
            (512, 8, 16, 0),
            (512, 8, 16, 64),
        ] {
            let result = request.decrypt(
                data.segment_mut(0, len)?,
                &bytes[..associated],
                &bytes[..iv],
                &bytes[..tag],
            );
            assert_eq!(result, Err(EINVAL));
        }
        assert!(*data.contents(0, 512)? == [1; 512]);
        Ok(())
    }

    /// The inputs of an earlier call are not used again.
    #[test]
    fn rejected_requests_change_no_memory() -> Result {
        for vector in &VECTORS {
            let cipher = cipher(vector)?;
            let mut request = cipher.request(Gfp::KERNEL)?;
            let mut message = Message::new(vector)?;
            let plaintext = message.contents()?;
            let long = [0; MAX_ASSOCIATED_SIZE + 1];
            message.encrypt(&mut request)?;
            let (ciphertext, tag) = (message.contents()?, SecretBytes::new(&message.tag)?);

            let mut other = Buffer::new(&[7; 512], 0)?;
            let (iv, len) = (message.iv.as_bytes().len(), message.len);
            for (associated, iv, tag) in [
                (0, iv - 1, tag.as_bytes().len()),
                (0, iv, tag.as_bytes().len() - 1),
                (MAX_ASSOCIATED_SIZE + 1, iv, tag.as_bytes().len()),
            ] {
                let (associated, iv) = (&long[..associated], &long[..iv]);
                let mut made = KVec::from_elem(3, tag, GFP_KERNEL)?;

                let result = request.decrypt(other.segment_mut(0, len)?, associated, iv, &made);
                assert_eq!(result, Err(EINVAL));
                let result = request.encrypt(other.segment_mut(0, len)?, associated, iv, &mut made);
                assert_eq!(result, Err(EINVAL));
                assert!(made.iter().all(|&byte| byte == 3));
            }
            assert!(*other.contents(0, 512)? == [7; 512]);
            assert!(*message.contents()? == *ciphertext);
            message.decrypt(&mut request)?;
            assert!(*message.contents()? == *plaintext);
        }
        Ok(())
    }

    #[test]
    fn associated_data_fits_up_to_the_maximum() -> Result {
        let [vector, ..] = &VECTORS;
        let cipher = cipher(vector)?;
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut message = Message::new(vector)?;
        let mut bytes = [5; MAX_ASSOCIATED_SIZE];

        message.associated = SecretBytes::new(&bytes)?;
        message.encrypt(&mut request)?;
        message.decrypt(&mut request)?;
        message.encrypt(&mut request)?;
        // The last byte is authenticated.
        bytes[MAX_ASSOCIATED_SIZE - 1] = 6;
        message.associated = SecretBytes::new(&bytes)?;
        assert_eq!(message.decrypt(&mut request), Err(EBADMSG));
        Ok(())
    }

    /// The tag and the initialisation vector have the maximum size. User-Mode Linux has no such
    /// ciphers.
    #[test]
    fn maximum_tag_and_iv_sizes() -> Result {
        let mut cipher = match Aead::new(c"authenc(hmac(sha512),adiantum(xchacha12,aes))") {
            Err(error) if error == ENOENT => return Ok(()),
            cipher => cipher?,
        };
        assert_eq!((cipher.tag_size(), cipher.iv_size()), (MAX_TAG_SIZE, 32));
        assert_eq!(digest_size(c"hmac(sha512)"), Ok(64));
        cipher.set_tag_size(MAX_TAG_SIZE)?;
        AuthencKey::new(32, 64)?.set(&mut cipher, &[1; 32], &[2; 64])?;

        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut tag = [0; MAX_TAG_SIZE];
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut iv = [9; 32];
        request.encrypt(data.segment_mut(0, 512)?, &[], &iv, &mut tag)?;
        let ciphertext = Buffer::new(&data.contents(0, 512)?, 0)?;
        request.decrypt(data.segment_mut(0, 512)?, &[], &iv, &tag)?;
        assert!(*data.contents(0, 512)? == [7; 512]);
        // The last byte of each is used.
        iv[31] = 8;
        let mut data = Buffer::new(&ciphertext.contents(0, 512)?, 0)?;
        request.decrypt(data.segment_mut(0, 512)?, &[], &iv, &tag)?;
        assert!(*data.contents(0, 512)? != [7; 512]);
        tag[MAX_TAG_SIZE - 1] ^= 1;
        let result = request.decrypt(data.segment_mut(0, 512)?, &[], &iv, &tag);
        assert_eq!(result, Err(EBADMSG));
        Ok(())
    }

    #[test]
    fn sizes_of_digests() {
        assert_eq!(digest_size(c"hmac(sha256)"), Ok(32));
        assert_eq!(digest_size(c"sha256"), Ok(32));
        for name in [c"", c"kscale_no_such_hash"] {
            assert_eq!(digest_size(name), Err(ENOENT));
        }
        assert!(digest_size(c"xts(aes)").is_err());
    }

    #[test]
    fn authenc_key_rejects_other_lengths() -> Result {
        let [_, vector] = &VECTORS;
        let key = SecretBytes::from_hex(vector.key)?;
        let mac_key = SecretBytes::from_hex(vector.mac_key.ok_or(EINVAL)?)?;
        let (key, mac_key) = (key.as_bytes(), mac_key.as_bytes());
        let mut cipher = cipher(vector)?;
        let mut both = AuthencKey::new(key.len(), mac_key.len())?;

        for (key, mac_key) in [
            (&key[1..], mac_key),
            (key, &mac_key[1..]),
            // The same total length, but split differently.
            (mac_key, key),
        ] {
            assert_eq!(both.set(&mut cipher, key, mac_key), Err(EINVAL));
        }
        // The old keys did not change.
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut message = Message::new(vector)?;
        message.encrypt(&mut request)?;
        assert!(*message.tag == *SecretBytes::from_hex(vector.tag)?.as_bytes());
        for (key, mac_key) in [
            (usize::MAX, 1),
            (1, usize::MAX),
            (1 << 32, 0),
            (u32::MAX as usize, 0),
        ] {
            assert_eq!(AuthencKey::new(key, mac_key).err(), Some(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn keys_do_not_remain_in_the_buffer() -> Result {
        let [_, vector] = &VECTORS;
        let mut cipher = cipher(vector)?;
        let mut both = AuthencKey::new(32, 64)?;

        both.set(&mut cipher, &[1; 32], &[2; 64])?;
        assert!(both.is_wiped());

        // The cipher refuses keys of this length.
        let mut both = AuthencKey::new(5, 64)?;
        assert_eq!(both.set(&mut cipher, &[1; 5], &[2; 64]), Err(EINVAL));
        assert!(both.is_wiped());

        // The buffer has room for one of the keys only.
        let mut both = AuthencKey::new(32, 64)?;
        assert_eq!(both.set(&mut cipher, &[1; 32], &[2; 65]), Err(EINVAL));
        assert!(both.is_wiped());
        Ok(())
    }

    #[test]
    fn no_key() -> Result {
        let cipher = Aead::new(c"gcm(aes)")?;
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut message = Message::new(&VECTORS[0])?;

        assert_eq!(message.encrypt(&mut request), Err(ENOKEY));
        assert_eq!(message.decrypt(&mut request), Err(ENOKEY));
        Ok(())
    }

    #[test]
    fn bad_keys() -> Result {
        let [gcm, authenc, ..] = &VECTORS;

        for len in [0, 15, 17, 33] {
            let key = KVec::from_elem(1, len, GFP_KERNEL)?;
            assert_eq!(cipher(gcm)?.set_key(&key), Err(EINVAL));
            // Two keys in a single buffer without a header.
            assert_eq!(cipher(authenc)?.set_key(&key), Err(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn unknown_cipher() {
        for name in [c"", c"kscale_no_such_cipher"] {
            assert!(Aead::new(name).is_err());
        }
        // A cipher without authentication is no AEAD.
        assert!(Aead::new(c"xts(aes)").is_err());
    }

    #[test]
    fn async_ciphers_fail_in_atomic_context() -> Result {
        let [vector, ..] = &VECTORS;
        let cipher = later(vector)?;
        let mut request = cipher.request(Gfp::KERNEL)?;
        let mut message = Message::new(vector)?;

        for result in request_buf::in_atomic_contexts(|| message.encrypt(&mut request)) {
            assert_eq!(result, Err(EDEADLK));
        }
        Ok(())
    }

    #[test]
    fn sizes() -> Result {
        let cipher = Aead::new(c"gcm(aes)")?;
        assert_eq!((cipher.iv_size(), cipher.tag_size()), (12, 16));
        assert_eq!(cipher.block_size(), 1);
        assert!(!cipher.is_async());
        assert!(!cipher.driver_name().is_empty());
        Ok(())
    }
}
