// SPDX-License-Identifier: GPL-2.0

//! Symmetric key ciphers.
//!
//! A [`Skcipher`] is a cipher and its key. Any number of threads can use it at once, each through
//! its own [`Request`]: scratch memory on the stack, set up once and used for any number of pieces
//! of data. A request waits for asynchronous drivers (`CRYPTO_ALG_ASYNC`). A [`Queue`] has several
//! asynchronous requests in flight.
//!
//! Data is passed by page ([`Segment`], [`SegmentMut`]) and not borrowed as a slice, as userspace
//! may write to it at any time.
//!
//! Not supported: drivers that allocate memory for a request (`CRYPTO_ALG_ALLOCATES_MEMORY`), data
//! in more than one piece, chained calls. For authenticated encryption see
//! [`aead`](crate::crypto::aead).
//!
//! # Examples
//!
//! ```
#![doc = include_str!("../../samples/examples/skcipher.rs")]
//! ```
//!
//! C header: [`include/crypto/skcipher.h`](srctree/include/crypto/skcipher.h)
//!
//! [`Segment`]: crate::block::bio::Segment
//! [`SegmentMut`]: crate::block::bio::SegmentMut

mod queue;
mod request;
mod tfm;

#[cfg(kscale_kunit)]
use kernel::prelude::*;

pub(crate) use self::tfm::not_empty;
#[doc(inline)]
pub use self::{
    queue::Queue,
    request::{
        Request,
        MAX_IV_SIZE, //
    },
    tfm::Skcipher, //
};

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_skcipher)]
mod tests {
    use super::*;
    use crate::{
        block::bio::{
            Buffer,
            Filled,
            SegmentMut, //
        },
        crypto::{
            request_buf,
            secret::SecretBytes, //
        },
        mm::{
            gfp::Gfp,
            page::Page, //
        }, //
    };
    use core::num::NonZeroU32;
    use kernel::str::CString;

    /// Known answers, in hexadecimal.
    struct Vector {
        cipher: &'static CStr,
        key: &'static [u8],
        iv: &'static [u8],
        plaintext: &'static [u8],
        ciphertext: &'static [u8],
    }

    const VECTORS: [Vector; 4] = [
        // IEEE P1619, vector 2.
        Vector {
            cipher: c"xts(aes)",
            key: b"1111111111111111111111111111111122222222222222222222222222222222",
            iv: b"33333333330000000000000000000000",
            plaintext: b"4444444444444444444444444444444444444444444444444444444444444444",
            ciphertext: b"c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
        },
        // IEEE P1619, vector 3.
        Vector {
            cipher: c"xts(aes)",
            key: b"fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222",
            iv: b"33333333330000000000000000000000",
            plaintext: b"4444444444444444444444444444444444444444444444444444444444444444",
            ciphertext: b"af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
        },
        // IEEE P1619, vector 10 (256-bit keys), the first 64 of its 512 bytes.
        Vector {
            cipher: c"xts(aes)",
            key: b"2718281828459045235360287471352662497757247093699959574966967627\
                   3141592653589793238462643383279502884197169399375105820974944592",
            iv: b"ff000000000000000000000000000000",
            plaintext: b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\
                         202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f",
            ciphertext: b"1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b\
                          5d31e276f8fe4a8d66b317f9ac683f44680a86ac35adfc3345befecb4bb188fd",
        },
        // RFC 3602, case 2.
        Vector {
            cipher: c"cbc(aes)",
            key: b"c286696d887c9aa0611bbb3e2025a45a",
            iv: b"562e17996d093d28ddb3ba695a2e6f58",
            plaintext: b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            ciphertext: b"d296cd94c2cccf8a3a863028b5e1dc0a7586602d253cfff91b8266bea6d61ab1",
        },
    ];

    /// Returns a cipher with the key of `vector`.
    fn cipher(vector: &Vector) -> Result<Skcipher> {
        let mut cipher = Skcipher::new(vector.cipher)?;

        cipher.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;
        Ok(cipher)
    }

    /// Returns the name of an asynchronous XTS: cryptd wraps implementations, not ciphers.
    fn later_name() -> Result<CString> {
        let cipher = Skcipher::new(c"xts(aes)")?;
        let driver = cipher.driver_name().to_str().map_err(|_| EINVAL)?;

        CString::try_from_fmt(fmt!("cryptd({driver})"))
    }

    #[test]
    fn known_answers() -> Result {
        for vector in &VECTORS {
            let cipher = cipher(vector)?;
            let iv = SecretBytes::from_hex(vector.iv)?;
            let plaintext = SecretBytes::from_hex(vector.plaintext)?;
            let ciphertext = SecretBytes::from_hex(vector.ciphertext)?;
            let len = plaintext.as_bytes().len();
            let src = Buffer::new(plaintext.as_bytes(), 0)?;
            let mut dst = Buffer::new(&[], 0)?;
            let mut back = Buffer::new(&[], 0)?;
            let mut request = cipher.request();

            request.encrypt(
                src.segment(0, len as u32)?,
                dst.segment_mut(0, len as u32)?,
                iv.as_bytes(),
            )?;
            assert!(*dst.contents(0, len)? == *ciphertext.as_bytes());

            request.decrypt(
                dst.segment(0, len as u32)?,
                back.segment_mut(0, len as u32)?,
                iv.as_bytes(),
            )?;
            assert!(*back.contents(0, len)? == *plaintext.as_bytes());
            assert!(*src.contents(0, len)? == *plaintext.as_bytes());
        }
        Ok(())
    }

    #[test]
    fn in_place_equals_out_of_place() -> Result {
        for vector in &VECTORS {
            let cipher = cipher(vector)?;
            let mut request = cipher.request();
            let iv = SecretBytes::from_hex(vector.iv)?;
            let mut data = KVec::new();
            for i in 0..4096_usize {
                data.push((i * 7 % 251) as u8, GFP_KERNEL)?;
            }

            for (offset, len) in [(0_u32, 512_u32), (512, 1024), (3584, 512), (0, 4096)] {
                let src = Buffer::new(&data, 0)?;
                let mut dst = Buffer::new(&[], 0)?;
                let mut in_place = Buffer::new(&data, 0)?;

                request.encrypt(
                    src.segment(offset, len)?,
                    dst.segment_mut(offset, len)?,
                    iv.as_bytes(),
                )?;
                request.encrypt_in_place(in_place.segment_mut(offset, len)?, iv.as_bytes())?;
                let (start, end) = (offset as usize, len as usize);
                assert!(*in_place.contents(start, end)? == *dst.contents(start, end)?);
                assert!(*in_place.contents(start, end)? != *src.contents(start, end)?);

                request.decrypt_in_place(in_place.segment_mut(offset, len)?, iv.as_bytes())?;
                assert!(*in_place.contents(0, 4096)? == *data);
            }
        }
        Ok(())
    }

    #[test]
    fn encryption_changes_no_neighbouring_bytes() -> Result {
        let [.., vector] = &VECTORS;
        let cipher = cipher(vector)?;
        let src = Buffer::new(&[1; 4096], 0)?;
        let mut dst = Buffer::new(&[0xee; 4096], 0)?;

        cipher
            .request()
            .encrypt(src.segment(0, 512)?, dst.segment_mut(1024, 512)?, &[0; 16])?;

        assert!(*dst.contents(0, 1024)? == [0xee; 1024]);
        assert!(*dst.contents(1536, 2560)? == [0xee; 2560]);
        assert!(*dst.contents(1024, 512)? != [0xee; 512]);
        Ok(())
    }

    #[test]
    fn bad_lengths() -> Result {
        let [vector, ..] = &VECTORS;
        let cipher = cipher(vector)?;
        let mut request = cipher.request();
        let src = Buffer::new(&[], 0)?;
        let mut dst = Buffer::new(&[], 0)?;

        // Lengths of the source, the destination and the initialisation vector.
        for (src_len, dst_len, iv_len) in [
            (512, 512, 15),
            (512, 512, 17),
            (512, 512, 0),
            (512, 512, MAX_IV_SIZE + 1),
            (512, 1024, 16),
            (1024, 512, 16),
            (500, 500, 16),
            (8, 8, 16),
        ] {
            let iv = KVec::from_elem(0, iv_len, GFP_KERNEL)?;
            let result =
                request.encrypt(src.segment(0, src_len)?, dst.segment_mut(0, dst_len)?, &iv);
            assert_eq!(result, Err(EINVAL));
            assert_eq!(
                request.decrypt_in_place(dst.segment_mut(0, dst_len)?, &iv),
                if iv_len == 16 && dst_len % 16 == 0 {
                    Ok(())
                } else {
                    Err(EINVAL)
                }
            );
        }
        Ok(())
    }

    /// Returns the initialisation vector of sector `number`.
    fn sector_iv(number: u8) -> [u8; MAX_IV_SIZE] {
        core::array::from_fn(|i| number.wrapping_mul(31).wrapping_add(i as u8))
    }

    /// Returns the encrypted form of `plaintext`, sector by sector, with `sector_iv()`.
    fn encrypted(cipher: &Skcipher, plaintext: &[u8], size: usize) -> Result<KVec<u8>> {
        let mut ciphertext = KVec::new();

        for (number, sector) in plaintext.chunks(size).enumerate() {
            let mut data = Buffer::new(sector, 0)?;
            cipher.request().encrypt_in_place(
                data.segment_mut(0, size as u32)?,
                &sector_iv(number as u8)[..cipher.iv_size()],
            )?;
            ciphertext.extend_from_slice(&data.contents(0, size)?, GFP_KERNEL)?;
        }
        Ok(ciphertext)
    }

    /// Fails unless a run of sectors is encrypted and decrypted as each of them alone.
    fn check_sectors(cipher: &Skcipher) -> Result {
        // Offset of the source, offset of the destination, length, sector size.
        for (from, to, len, size) in [
            (0, 0, 4096, 512),
            (0, 0, 4096, 4096),
            (512, 1024, 2048, 512),
            (2048, 0, 2048, 1024),
            (0, 3584, 512, 512),
            (16, 32, 128, 16),
        ] {
            let plaintext: [u8; 4096] = core::array::from_fn(|i| (i * 7 % 251) as u8);
            let src = Buffer::new(&plaintext, 0)?;
            let mut dst = Buffer::new(&[0xee; 4096], 0)?;
            let (start, end) = (from as usize, (from + len) as usize);
            let expected = encrypted(cipher, &plaintext[start..end], size as usize)?;
            let size = NonZeroU32::new(size).ok_or(EINVAL)?;
            let mut request = cipher.request();

            let mut numbers = 0..;
            request.encrypt_sectors(
                src.segment(from, len)?,
                dst.segment_mut(to, len)?,
                size,
                || sector_iv(numbers.next().unwrap_or(0)),
            )?;
            assert_eq!(u32::from(numbers.start), len / size);
            let (at, end) = (to as usize, (to + len) as usize);
            assert!(*dst.contents(at, len as usize)? == *expected);
            // No other bytes were written.
            assert!(dst.contents(0, at)?.iter().all(|&byte| byte == 0xee));
            let rest = dst.contents(end, 4096 - end)?;
            assert!(rest.iter().all(|&byte| byte == 0xee));

            let mut numbers = 0..;
            request.decrypt_sectors_in_place(dst.segment_mut(to, len)?, size, || {
                sector_iv(numbers.next().unwrap_or(0))
            })?;
            assert_eq!(u32::from(numbers.start), len / size);
            assert!(*dst.contents(at, len as usize)? == plaintext[start..start + len as usize]);
            let rest = dst.contents(end, 4096 - end)?;
            assert!(rest.iter().all(|&byte| byte == 0xee));
        }
        Ok(())
    }

    #[test]
    fn a_run_of_sectors_is_encrypted_as_each_of_them() -> Result {
        for vector in &VECTORS {
            check_sectors(&cipher(vector)?)?;
        }
        let [vector, ..] = &VECTORS;
        let mut later = Skcipher::new(&later_name()?)?;
        later.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;
        check_sectors(&later)?;
        // No initialisation vector.
        let mut cipher = Skcipher::new(c"ecb(aes)")?;
        cipher.set_key(&[1; 16])?;
        check_sectors(&cipher)
    }

    #[test]
    fn bad_runs_of_sectors_change_nothing() -> Result {
        let [vector, ..] = &VECTORS;
        let at_once = cipher(vector)?;
        let mut later = Skcipher::new(&later_name()?)?;
        later.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;

        // Lengths of the source and the destination, sector size.
        for (src_len, dst_len, size) in [
            (512, 1024, 512),
            (1024, 512, 512),
            (768, 768, 512),
            (256, 256, 512),
            (1536, 1536, 768),
            (96, 96, 48),
            (64, 64, 8),
            (512, 512, 1),
            (4096, 4096, 8192),
            (4096, 4096, u32::MAX),
            (4096, 4096, 1 << 31),
        ] {
            let size = NonZeroU32::new(size).ok_or(EINVAL)?;
            for cipher in [&at_once, &later] {
                let src = Buffer::new(&[7; 4096], 0)?;
                let mut dst = Buffer::new(&[0xee; 4096], 0)?;
                let mut request = cipher.request();
                let mut calls = 0;
                let mut iv = || {
                    calls += 1;
                    sector_iv(0)
                };

                let result = request.encrypt_sectors(
                    src.segment(0, src_len)?,
                    dst.segment_mut(0, dst_len)?,
                    size,
                    &mut iv,
                );
                assert_eq!(result, Err(EINVAL));
                if src_len == dst_len {
                    let data = dst.segment_mut(0, dst_len)?;
                    let result = request.decrypt_sectors_in_place(data, size, &mut iv);
                    assert_eq!(result, Err(EINVAL));
                }
                assert_eq!(calls, 0);
                assert!(*dst.contents(0, 4096)? == [0xee; 4096]);
            }
        }
        Ok(())
    }

    #[test]
    fn no_sector_is_no_run() -> Result {
        let [vector, ..] = &VECTORS;
        let cipher = cipher(vector)?;
        let mut page = Page::<0>::alloc(Gfp::KERNEL)?;
        let size = NonZeroU32::new(512).ok_or(EINVAL)?;
        let mut request = cipher.request();

        for offset in [0, 4096] {
            let data = page.zeroed_segment_mut(offset, 0).ok_or(EINVAL)?;
            let result = request.decrypt_sectors_in_place(data, size, || sector_iv(0));
            assert_eq!(result, Err(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn a_run_ends_at_the_first_failure() -> Result {
        let size = NonZeroU32::new(512).ok_or(EINVAL)?;

        for name in [CString::try_from_fmt(fmt!("xts(aes)"))?, later_name()?] {
            let without_key = Skcipher::new(&name)?;
            let mut data = Buffer::new(&[7; 4096], 0)?;
            let mut request = without_key.request();
            let mut calls = 0;

            let result = request.decrypt_sectors_in_place(data.segment_mut(0, 4096)?, size, || {
                calls += 1;
                sector_iv(0)
            });
            assert_eq!((result, calls), (Err(ENOKEY), 1));
            assert!(*data.contents(0, 4096)? == [7; 4096]);
        }
        Ok(())
    }

    #[test]
    fn async_ciphers_run_no_sectors_in_atomic_context() -> Result {
        let [vector, ..] = &VECTORS;
        let mut cipher = Skcipher::new(&later_name()?)?;
        cipher.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;
        let size = NonZeroU32::new(512).ok_or(EINVAL)?;
        let mut data = Buffer::new(&[7; 4096], 0)?;
        let mut request = cipher.request();

        for result in request_buf::in_atomic_contexts(|| {
            request.decrypt_sectors_in_place(data.segment_mut(0, 4096)?, size, || sector_iv(0))
        }) {
            assert_eq!(result, Err(EDEADLK));
        }
        assert!(*data.contents(0, 4096)? == [7; 4096]);
        Ok(())
    }

    #[test]
    fn encrypted_sectors_fill_memory() -> Result {
        let [vector, ..] = &VECTORS;
        let size = NonZeroU32::new(512).ok_or(EINVAL)?;
        let src = Buffer::new(&[7; 4096], 0)?;
        let mut dst = Buffer::new(&[], 0)?;

        for (cipher, len) in [(Skcipher::new(c"xts(aes)")?, 0), (cipher(vector)?, 4096)] {
            let filled = Filled::new();
            // SAFETY: `filled` counts these bytes.
            let segment = unsafe { dst.unfilled_segment_mut(4096, &filled) }?;
            let result =
                cipher
                    .request()
                    .encrypt_sectors(src.segment(0, 4096)?, segment, size, || sector_iv(0));
            assert_eq!(result.is_ok(), len > 0);
            assert_eq!(filled.len(), len);
        }
        Ok(())
    }

    #[test]
    fn memory_is_written_before_it_is_encrypted_in_place() -> Result {
        let [vector, ..] = &VECTORS;
        let cipher = cipher(vector)?;
        let size = NonZeroU32::new(512).ok_or(EINVAL)?;
        let (mut memory, filled) = (Buffer::new(&[7; 4096], 0)?, Filled::new());
        // SAFETY: `filled` counts these bytes.
        let mut data = unsafe { memory.unfilled_segment_mut(512, &filled) }?;
        let crypt = |data: &mut SegmentMut<'_>| {
            let (mut request, iv) = (cipher.request(), sector_iv(0));
            let iv = iv.get(..cipher.iv_size()).ok_or(EINVAL)?;
            request.encrypt_in_place(data.reborrow(), iv)?;
            request.decrypt_in_place(data.reborrow(), iv)?;
            request.decrypt_sectors_in_place(data.reborrow(), size, || sector_iv(0))
        };

        for written in [0, 511] {
            data.write_at(0, &[1; 511][..written])?;
            assert_eq!(crypt(&mut data), Err(EINVAL));
        }
        data.write_at(511, &[1])?;
        assert_eq!(crypt(&mut data), Ok(()));
        Ok(())
    }

    #[test]
    fn no_key() -> Result {
        let cipher = Skcipher::new(c"xts(aes)")?;
        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut request = cipher.request();

        let result = request.encrypt_in_place(data.segment_mut(0, 512)?, &[0; 16]);
        assert_eq!(result, Err(ENOKEY));
        let result = request.decrypt_in_place(data.segment_mut(0, 512)?, &[0; 16]);
        assert_eq!(result, Err(ENOKEY));
        assert!(*data.contents(0, 512)? == [7; 512]);
        Ok(())
    }

    #[test]
    fn wrong_key_length() -> Result {
        let [vector, ..] = &VECTORS;

        // XTS takes 32 to 64 bytes. A length out of this range does not change the old key.
        for (len, then) in [
            (0, Ok(())),
            (31, Ok(())),
            (33, Err(ENOKEY)),
            (40, Err(ENOKEY)),
            (65, Ok(())),
        ] {
            let mut cipher = cipher(vector)?;
            let mut data = Buffer::new(&[7; 512], 0)?;
            let key = KVec::from_elem(1, len, GFP_KERNEL)?;

            assert_eq!(cipher.set_key(&key), Err(EINVAL));
            let result = cipher
                .request()
                .encrypt_in_place(data.segment_mut(0, 512)?, &[0; 16]);
            assert_eq!(result, then);
        }
        Ok(())
    }

    #[test]
    fn async_ciphers_are_waited_for() -> Result {
        let [vector, ..] = &VECTORS;
        let mut cipher = Skcipher::new(&later_name()?)?;
        assert!(cipher.is_async() && cipher.may_sleep());
        cipher.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;
        let iv = SecretBytes::from_hex(vector.iv)?;
        let plaintext = SecretBytes::from_hex(vector.plaintext)?;
        let ciphertext = SecretBytes::from_hex(vector.ciphertext)?;
        let len = plaintext.as_bytes().len();
        let src = Buffer::new(plaintext.as_bytes(), 0)?;
        let mut dst = Buffer::new(&[], 0)?;
        let mut request = cipher.request();

        for _ in 0..100 {
            request.encrypt(
                src.segment(0, len as u32)?,
                dst.segment_mut(0, len as u32)?,
                iv.as_bytes(),
            )?;
            assert!(*dst.contents(0, len)? == *ciphertext.as_bytes());
            request.decrypt_in_place(dst.segment_mut(0, len as u32)?, iv.as_bytes())?;
            assert!(*dst.contents(0, len)? == *plaintext.as_bytes());
        }
        Ok(())
    }

    #[test]
    fn sync_ciphers_are_preferred() -> Result {
        // An instance of cryptd() has the higher priority.
        let _later = Skcipher::new(&later_name()?)?;

        let cipher = Skcipher::new(c"xts(aes)")?;
        assert!(!cipher.is_async() && !cipher.may_sleep());
        Ok(())
    }

    #[test]
    fn large_requests_use_the_pool_without_a_warning() -> Result {
        // Each `essiv()` adds its own context to that of the inner cipher, but arm64 has the
        // innermost one as one cipher without a context. The kernel must not warn of it: a warning
        // fails the guest.
        let name = c"essiv(essiv(essiv(essiv(essiv(essiv(cbc(aes),\
            sha256),sha256),sha256),sha256),sha256),sha256)";
        let mut cipher = Skcipher::new(name)?;
        assert!(!cipher.is_async() && cipher.may_sleep());
        cipher.set_key(&[1; 32])?;
        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut request = cipher.request();

        request.encrypt_in_place(data.segment_mut(0, 512)?, &[2; 16])?;
        assert!(*data.contents(0, 512)? != [7; 512]);
        request.decrypt_in_place(data.segment_mut(0, 512)?, &[2; 16])?;
        assert!(*data.contents(0, 512)? == [7; 512]);
        Ok(())
    }

    #[test]
    fn errors_of_async_ciphers_are_returned() -> Result {
        let cipher = Skcipher::new(&later_name()?)?;
        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut request = cipher.request();

        for (len, iv_len, error) in [(512, 16, ENOKEY), (512, 15, EINVAL), (500, 16, EINVAL)] {
            let iv = KVec::from_elem(0, iv_len, GFP_KERNEL)?;
            let result = request.encrypt_in_place(data.segment_mut(0, len)?, &iv);
            assert_eq!(result, Err(error));
        }
        assert!(*data.contents(0, 512)? == [7; 512]);
        Ok(())
    }

    #[test]
    fn async_ciphers_fail_in_atomic_context() -> Result {
        let [vector, ..] = &VECTORS;
        let mut cipher = Skcipher::new(&later_name()?)?;
        cipher.set_key(SecretBytes::from_hex(vector.key)?.as_bytes())?;
        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut request = cipher.request();

        for result in request_buf::in_atomic_contexts(|| {
            request.encrypt_in_place(data.segment_mut(0, 512)?, &[0; 16])
        }) {
            assert_eq!(result, Err(EDEADLK));
        }
        assert!(*data.contents(0, 512)? == [7; 512]);
        Ok(())
    }

    /// Returns whether the memory of a page contains these bytes.
    fn has(page: &Page<0>, wanted: &[u8]) -> bool {
        // SAFETY: The caller has filled the page.
        let bytes = unsafe { page.assume_filled() }.as_slice();
        let request = bytes.get(..size_of::<Request<'_>>()).unwrap_or_default();
        request.windows(wanted.len()).any(|bytes| bytes == wanted)
    }

    #[test]
    fn drop_wipes_the_request() -> Result {
        let [.., vector] = &VECTORS;
        let cipher = cipher(vector)?;
        let mut page = Page::<0>::alloc(Gfp::KERNEL)?;
        page.fill(0);
        let mut data = Buffer::new(&[7; 512], 0)?;
        let request: *mut Request<'_> = page.as_uninit_slice_mut().as_mut_ptr().cast();

        // SAFETY: A page has room for a request, and nothing else uses it.
        unsafe { request.write(cipher.request()) };
        // SAFETY: The request was written above.
        unsafe { &mut *request }.encrypt_in_place(data.segment_mut(0, 512)?, &[5; 16])?;
        // The initialisation vector of the next block.
        let last = data.contents(496, 16)?;
        // SAFETY: `tfm` is a cipher.
        let tfm = unsafe { &raw const (*cipher.tfm.as_ptr()).base as usize }.to_ne_bytes();
        assert!(has(&page, &last) && has(&page, &tfm));

        // SAFETY: The request was written above, and is not used again.
        unsafe { request.drop_in_place() };
        assert!(!has(&page, &last) && !has(&page, &tfm));
        Ok(())
    }

    /// The initialisation vector has the maximum size. User-Mode Linux has no such cipher.
    #[test]
    fn maximum_iv_size() -> Result {
        let mut cipher = match Skcipher::new(c"adiantum(xchacha12,aes)") {
            Err(error) if error == ENOENT => return Ok(()),
            cipher => cipher?,
        };
        assert_eq!(cipher.iv_size(), MAX_IV_SIZE);
        cipher.set_key(&[1; 32])?;
        let mut data = Buffer::new(&[7; 512], 0)?;
        let mut request = cipher.request();
        let mut iv = [9; MAX_IV_SIZE];

        request.encrypt_in_place(data.segment_mut(0, 512)?, &iv)?;
        let ciphertext = data.contents(0, 512)?;
        request.decrypt_in_place(data.segment_mut(0, 512)?, &iv)?;
        assert!(*data.contents(0, 512)? == [7; 512]);
        // The last byte is used.
        iv[MAX_IV_SIZE - 1] = 8;
        request.encrypt_in_place(data.segment_mut(0, 512)?, &iv)?;
        assert!(*data.contents(0, 512)? != *ciphertext);
        Ok(())
    }

    #[test]
    fn unknown_cipher() {
        for name in [c"", c"kscale_no_such_cipher"] {
            assert_eq!(Skcipher::new(name).err(), Some(ENOENT));
        }
        // A hash is not a cipher.
        assert!(Skcipher::new(c"sha256").is_err());
    }

    #[test]
    fn sizes() -> Result {
        let cipher = Skcipher::new(c"ecb(aes)")?;
        assert_eq!((cipher.iv_size(), cipher.block_size()), (0, 16));

        let cipher = Skcipher::new(c"cbc(aes)")?;
        assert_eq!((cipher.iv_size(), cipher.block_size()), (16, 16));
        assert!(!cipher.driver_name().is_empty());
        Ok(())
    }
}
