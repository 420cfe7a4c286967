// SPDX-License-Identifier: GPL-2.0

//! Keys of `authenc()`.

use kernel::{
    error::to_result,
    prelude::*, //
};

use crate::{
    bindings,
    crypto::{
        secret::SecretBytes,
        skcipher::not_empty, //
    }, //
};

use super::Aead;

/// A buffer for the two keys of `authenc(<digest>,<cipher>)`, in the format that `authenc()`
/// requires.
///
/// It is allocated in advance, so that a key can be replaced when memory is short. It holds a key
/// only during [`AuthencKey::set()`].
///
/// C: `struct crypto_authenc_key_param` in `include/crypto/authenc.h`.
pub struct AuthencKey {
    packed: SecretBytes,
    encryption_len: usize,
}

/// The size of a `struct rtattr` with its data: length and type in native byte order, 16 bits each,
/// and the length of the encryption key in big endian.
const HEADER_LEN: usize = 8;

/// Returns the digest size of a hash in bytes, for example 32 for `hmac(sha256)`. It is the maximum
/// tag size of `authenc()`, and dm-crypt uses it as the length of the authentication key.
///
/// May load a module. Fails with [`ENOENT`] if there is no such hash or its name is empty.
///
/// Context: Process context. May sleep. Not for the I/O path: loading a module may wait for I/O. C:
/// `crypto_alloc_ahash()`, `crypto_ahash_digestsize()` in `include/crypto/hash.h`.
pub fn digest_size(hash: &CStr) -> Result<u32> {
    not_empty(hash)?;
    // SAFETY: `hash` is a C string.
    let size = unsafe { bindings::crypto_ahash_digestsize_by_name(hash.as_char_ptr()) };

    to_result(size)?;
    Ok(u32::try_from(size)?)
}

impl AuthencKey {
    /// Allocates the buffer for keys of these lengths in bytes.
    ///
    /// Fails with [`EINVAL`] if they exceed the limit of C, and with [`ENOMEM`] if there is no
    /// memory.
    ///
    /// Context: Process context. May sleep.
    pub fn new(encryption_len: usize, authentication_len: usize) -> Result<Self> {
        let len = encryption_len
            .checked_add(authentication_len)
            .and_then(|len| len.checked_add(HEADER_LEN))
            .filter(|&len| u32::try_from(len).is_ok())
            .ok_or(EINVAL)?;

        Ok(Self {
            packed: SecretBytes::zeroed(len)?,
            encryption_len,
        })
    }

    /// Replaces the key of `cipher`.
    ///
    /// Fails with [`EINVAL`] if the lengths differ from those of [`AuthencKey::new()`], and with
    /// the errors of [`Aead::set_key()`].
    ///
    /// Context: Process context. May sleep if the cipher does.
    pub fn set(&mut self, cipher: &mut Aead, encryption: &[u8], authentication: &[u8]) -> Result {
        let result = self
            .pack(encryption, authentication)
            .and_then(|()| cipher.set_key(self.packed.as_bytes()));

        self.packed.wipe();
        result
    }

    /// Returns whether the buffer contains no part of a key.
    #[cfg(kscale_kunit)]
    pub(super) fn is_wiped(&self) -> bool {
        self.packed.as_bytes().iter().all(|byte| *byte == 0)
    }

    fn pack(&mut self, encryption: &[u8], authentication: &[u8]) -> Result {
        if encryption.len() != self.encryption_len {
            return Err(EINVAL);
        }
        // CAST: `new()` checked the length.
        let [enc_0, enc_1, enc_2, enc_3] = (encryption.len() as u32).to_be_bytes();
        // CAST: The constant is 8.
        let [len_0, len_1] = (HEADER_LEN as u16).to_ne_bytes();
        let [type_0, type_1] = bindings::CRYPTO_AUTHENC_KEYA_PARAM.to_ne_bytes();
        let header: [u8; HEADER_LEN] = [len_0, len_1, type_0, type_1, enc_0, enc_1, enc_2, enc_3];

        self.packed
            .replace_by_parts(&[&header, authentication, encryption])
    }
}
