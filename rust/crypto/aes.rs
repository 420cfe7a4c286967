// SPDX-License-Identifier: GPL-2.0

//! The AES block cipher for single blocks.
//!
//! For formats that encrypt single blocks. For other data use a mode of operation, such as those of
//! [`skcipher`](crate::crypto::skcipher), which is also faster. Decryption is not supported.
//!
//! C header: [`include/crypto/aes.h`](srctree/include/crypto/aes.h)

use kernel::{
    error::to_result,
    prelude::*, //
};

use core::mem::MaybeUninit;

use crate::bindings;

/// The size of a block in bytes.
pub const BLOCK_SIZE: usize = 16;

/// An encryption key, wiped on drop.
///
/// # Invariants
///
/// `key` was initialised by a successful `aes_prepareenckey()`.
pub struct EncKey {
    key: KBox<MaybeUninit<bindings::aes_enckey>>,
}

impl EncKey {
    /// Prepares a key of 16, 24 or 32 bytes.
    ///
    /// Fails with [`EINVAL`] for any other length, and with [`ENOMEM`] if there is no memory.
    ///
    /// Context: Process context. May sleep.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let mut key = KBox::new_uninit(GFP_KERNEL)?;

        prepare(&mut key, bytes)?;
        // INVARIANT: Just initialised.
        Ok(Self { key })
    }

    /// Replaces the key by a key of 16, 24 or 32 bytes. Allocates nothing.
    ///
    /// Fails with [`EINVAL`] for any other length, and then keeps the old key.
    ///
    /// Context: Any context. Never sleeps.
    pub fn replace(&mut self, bytes: &[u8]) -> Result {
        // INVARIANT: Initialised again, or unchanged.
        prepare(&mut self.key, bytes)
    }

    /// Returns the encrypted block.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn encrypt(&self, block: &[u8; BLOCK_SIZE]) -> [u8; BLOCK_SIZE] {
        let mut out = [0; BLOCK_SIZE];

        // SAFETY: `key` is initialised by the type invariants, and the arrays are blocks.
        unsafe { bindings::aes_encrypt(self.key.as_ptr(), out.as_mut_ptr(), block.as_ptr()) };
        out
    }
}

/// Initialises `key` by `aes_prepareenckey()`. Does not change `key` on failure.
fn prepare(key: &mut MaybeUninit<bindings::aes_enckey>, bytes: &[u8]) -> Result {
    // The function checks the length first, and cannot fail after the first write.
    //
    // SAFETY:
    // - `key` is valid for writes.
    // - `bytes` is valid for reads of its length.
    to_result(unsafe { bindings::aes_prepareenckey(key.as_mut_ptr(), bytes.as_ptr(), bytes.len()) })
}

impl Drop for EncKey {
    fn drop(&mut self) {
        // SAFETY: `key` is valid for writes, and not used again.
        unsafe {
            bindings::memzero_explicit(
                self.key.as_mut_ptr().cast(),
                size_of::<bindings::aes_enckey>(),
            )
        };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_aes)]
mod tests {
    use super::*;

    use crate::crypto::secret::SecretBytes;

    #[test]
    fn known_answers() -> Result {
        // FIPS 197, appendix C.
        const KEY: &[u8] = b"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
        let block = 0x00112233445566778899aabbccddeeff_u128.to_be_bytes();
        let key = SecretBytes::from_hex(KEY)?;

        for (len, expected) in [
            (16, 0x69c4e0d86a7b0430d8cdb78070b4c55a_u128),
            (24, 0xdda97ca4864cdfe06eaf70a0ec0d7191),
            (32, 0x8ea2b7ca516745bfeafc49904b496089),
        ] {
            let key = EncKey::new(key.as_bytes().get(..len).ok_or(EINVAL)?)?;

            assert!(key.encrypt(&block) == expected.to_be_bytes());
            // The key did not change.
            assert!(key.encrypt(&block) == expected.to_be_bytes());
        }
        Ok(())
    }

    #[test]
    fn invalid_key_lengths_are_rejected() -> Result {
        let mut key = EncKey::new(&[1; 16])?;
        let block = key.encrypt(&[2; 16]);

        for len in [0, 1, 15, 17, 31, 33] {
            assert_eq!(EncKey::new(&[7; 33][..len]).err(), Some(EINVAL));
            assert_eq!(key.replace(&[7; 33][..len]), Err(EINVAL));
            assert!(key.encrypt(&[2; 16]) == block);
        }
        Ok(())
    }

    #[test]
    fn replaced_key_encrypts_like_a_new_key() -> Result {
        let mut key = EncKey::new(&[1; 16])?;
        let other = EncKey::new(&[3; 32])?;

        key.replace(&[3; 32])?;
        assert!(key.encrypt(&[2; 16]) == other.encrypt(&[2; 16]));
        Ok(())
    }

    #[test]
    fn drop_wipes_the_key() -> Result {
        const LEN: usize = 32;

        // `kmalloc()` returns the freed memory, unless another task gets it or it is kept back.
        for _ in 0..10 {
            let memory = KBox::<MaybeUninit<bindings::aes_enckey>>::new_uninit(GFP_KERNEL)?;
            let bytes = memory.as_ptr().cast::<u8>();
            // The kernel overwrites a part of freed memory.
            let is_old = |index: &usize| {
                // SAFETY: The memory is longer, and has any values.
                unsafe { bytes.add(*index).read_volatile() == 0xc3 }
            };
            let count = (0..size_of::<bindings::aes_enckey>())
                .filter(is_old)
                .count();
            drop(memory);
            assert!(count < LEN / 2);
            drop(EncKey::new(&[0xc3; LEN])?);
        }
        Ok(())
    }
}
