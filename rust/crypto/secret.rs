// SPDX-License-Identifier: GPL-2.0

//! Key material that does not outlive its owner.
//!
//! A [`Key`] is one allocation that is never moved or grown, and that is wiped when the key is
//! dropped. Use it for whatever must not be left behind in freed memory; keep copies out of
//! `KVec<u8>` and arrays.

use kernel::{
    alloc::flags::__GFP_NOWARN,
    error::to_result,
    fmt::{
        self,
        Write, //
    },
    prelude::*, //
};

use core::fmt::LowerHex;

use crate::bindings;

/// Secret bytes, wiped on drop.
///
/// [`Debug`](fmt::Debug) prints the length only. [`LowerHex`] prints the secret, in the form that
/// device-mapper tables use.
pub struct Key {
    /// Never grown: a reallocation would free the old bytes as they are.
    bytes: KVec<u8>,
}

impl Key {
    /// Copies a secret.
    ///
    /// Fails with [`ENOMEM`] if there is no memory for it.
    ///
    /// Context: Task. Sleeps.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let mut key = Self::zeroed(bytes.len())?;

        key.bytes.copy_from_slice(bytes);
        Ok(key)
    }

    /// Decodes pairs of hexadecimal digits, in either case; a digit without a pair is ignored.
    ///
    /// Decoding takes the same time whatever the digits are. Fails with [`EINVAL`] on anything
    /// but digits, with [`ENOMEM`] if there is no memory for the key.
    ///
    /// Context: Task. Sleeps.
    pub fn from_hex(digits: &[u8]) -> Result<Self> {
        let mut key = Self::zeroed(digits.len() / 2)?;

        // SAFETY:
        // - `bytes` is valid for writes of its length.
        // - `digits` is valid for reads of twice that length: `zeroed()` got half of its length,
        //   rounded down. `hex2bin()` in `lib/hexdump.c` needs no terminator.
        to_result(unsafe {
            bindings::hex2bin(
                key.bytes.as_mut_ptr(),
                digits.as_ptr().cast(),
                key.bytes.len(),
            )
        })?;
        Ok(key)
    }

    /// Makes a key of `len` random bytes.
    ///
    /// Fails with [`ENOMEM`] if there is no memory for it.
    ///
    /// Context: Task. Sleeps, also until there is enough entropy. C: `get_random_bytes()`.
    pub fn random(len: usize) -> Result<Self> {
        let mut key = Self::zeroed(len)?;

        // SAFETY: `bytes` is valid for writes of its length.
        unsafe { bindings::get_random_bytes(key.bytes.as_mut_ptr().cast(), key.bytes.len()) };
        Ok(key)
    }

    /// Returns a key of `len` zero bytes. Whoever asks for too many gets no warning in the log.
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        Ok(Self {
            bytes: KVec::zeroed(len, GFP_KERNEL | __GFP_NOWARN)?,
        })
    }

    /// Returns the secret.
    ///
    /// Context: Any. Never sleeps.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Overwrites the secret with another one of the same length. Allocates nothing.
    ///
    /// Fails with [`EINVAL`] if it has another length.
    ///
    /// Context: Any. Never sleeps.
    pub fn replace(&mut self, bytes: &[u8]) -> Result {
        if bytes.len() != self.bytes.len() {
            return Err(EINVAL);
        }
        self.bytes.copy_from_slice(bytes);
        Ok(())
    }

    /// Overwrites the secret with others, one behind the other.
    ///
    /// Fails with [`EINVAL`], and leaves some of it, if they have not the same length together.
    pub(crate) fn replace_by_parts(&mut self, parts: &[&[u8]]) -> Result {
        let mut rest = &mut *self.bytes;

        for part in parts {
            let (to, others) = rest.split_at_mut_checked(part.len()).ok_or(EINVAL)?;
            to.copy_from_slice(part);
            rest = others;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// Overwrites the secret with zeros.
    pub(crate) fn wipe(&mut self) {
        memzero_explicit(&mut self.bytes);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.bytes.len())
    }
}

impl LowerHex for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_bytes() {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(byte & 0xf))?;
        }
        Ok(())
    }
}

/// Returns the hexadecimal digit of a value below 16, without a table or a branch to time.
fn digit(value: u8) -> char {
    // The borrow of `9 - value` has all bits set for ten and up, and 0x27 is `'a' - '0' - 10`.
    let letter = (u32::from(value).wrapping_neg().wrapping_add(9) >> 4) & 0x27;

    char::from(value.wrapping_add(b'0').wrapping_add(letter as u8))
}

/// Zeroes `bytes` in a way that the compiler does not drop, even if nothing reads them again.
///
/// For secrets on the stack; others are a [`Key`], which does it by itself.
///
/// Context: Any.
#[inline]
pub fn memzero_explicit(bytes: &mut [u8]) {
    // SAFETY: `bytes` is valid for writes of its length.
    unsafe { bindings::memzero_explicit(bytes.as_mut_ptr().cast(), bytes.len()) };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_key)]
mod tests {
    use super::*;
    use kernel::str::CString;

    #[test]
    fn hex_round_trip() -> Result {
        let key = Key::from_hex(b"00Ff10a9E7")?;

        assert_eq!(key.as_bytes(), &[0x00, 0xff, 0x10, 0xa9, 0xe7]);
        assert_eq!(
            CString::try_from_fmt(fmt!("{key:x}"))?.to_bytes(),
            b"00ff10a9e7"
        );
        Ok(())
    }

    #[test]
    fn every_byte_prints_as_two_digits() -> Result {
        for byte in 0..=u8::MAX {
            let key = Key::new(&[byte])?;
            let expected = CString::try_from_fmt(fmt!("{byte:02x}"))?;

            assert_eq!(
                CString::try_from_fmt(fmt!("{key:x}"))?.to_bytes(),
                expected.to_bytes()
            );
        }
        Ok(())
    }

    /// The kernel warns of an order that the page allocator does not have.
    #[test]
    fn a_key_that_is_too_long_is_refused() {
        for len in [1 << 23, 1 << 48, usize::MAX] {
            assert_eq!(Key::random(len).err(), Some(ENOMEM));
        }
    }

    #[test]
    fn unpaired_digit_is_ignored() -> Result {
        assert_eq!(Key::from_hex(b"abc")?.as_bytes(), &[0xab]);
        assert_eq!(Key::from_hex(b"a")?.as_bytes(), &[]);
        assert_eq!(Key::from_hex(b"")?.as_bytes(), &[]);
        Ok(())
    }

    #[test]
    fn not_a_digit() {
        for digits in [b"0g", b"g0", b"0 ", b"-1", b"0\0"] {
            assert_eq!(Key::from_hex(digits).err(), Some(EINVAL));
        }
    }

    #[test]
    fn random_keys_differ() -> Result {
        let key = Key::random(32)?;

        assert_eq!(key.as_bytes().len(), 32);
        assert!(key.as_bytes() != Key::random(32)?.as_bytes());
        assert_eq!(Key::random(0)?.as_bytes(), &[]);
        Ok(())
    }

    #[test]
    fn debug_hides_the_secret() -> Result {
        let key = Key::new(b"secret")?;

        assert_eq!(
            CString::try_from_fmt(fmt!("{key:?}"))?.to_bytes(),
            b"Key(6 bytes)"
        );
        Ok(())
    }

    #[test]
    fn only_a_secret_as_long_takes_the_place() -> Result {
        let mut key = Key::new(b"secret")?;

        for other in [&b""[..], b"short", b"too long"] {
            assert_eq!(key.replace(other), Err(EINVAL));
            assert_eq!(key.as_bytes(), b"secret");
        }
        key.replace(b"hidden")?;
        assert_eq!(key.as_bytes(), b"hidden");
        Ok(())
    }

    #[test]
    fn wipe_zeroes_every_byte() -> Result {
        let mut key = Key::new(&[0xa5; 64])?;

        key.wipe();

        assert_eq!(key.as_bytes(), &[0; 64]);
        Ok(())
    }
}
