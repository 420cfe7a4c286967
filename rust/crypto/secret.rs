// SPDX-License-Identifier: GPL-2.0

//! Key material that is wiped when its owner is dropped.
//!
//! A [`SecretBytes`] is an allocation that is never moved or grown, and that is wiped on drop. Use
//! it for all data that must not remain in freed memory. Do not keep copies in a `KVec<u8>` or an
//! array.

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

use crate::{
    bindings,
    lib::random, //
};

/// Secret bytes, wiped on drop.
///
/// [`Debug`](fmt::Debug) prints the length only. [`LowerHex`] prints the secret in the format of
/// device-mapper tables.
pub struct SecretBytes {
    /// Never grown: a reallocation would free the old bytes without wiping them.
    bytes: KVec<u8>,
}

impl SecretBytes {
    /// Copies a secret.
    ///
    /// Fails with [`ENOMEM`] if there is no memory for it.
    ///
    /// Context: Process context. May sleep.
    pub fn new(bytes: &[u8]) -> Result<Self> {
        let mut key = Self::zeroed(bytes.len())?;

        key.bytes.copy_from_slice(bytes);
        Ok(key)
    }

    /// Decodes pairs of hexadecimal digits in either case. Ignores an unpaired last digit.
    ///
    /// Takes constant time for all digits. Fails with [`EINVAL`] on other characters, and with
    /// [`ENOMEM`] if there is no memory for the key.
    ///
    /// Context: Process context. May sleep.
    pub fn from_hex(digits: &[u8]) -> Result<Self> {
        let mut key = Self::zeroed(digits.len() / 2)?;

        // SAFETY:
        // - `bytes` is valid for writes of its length.
        // - `digits` is valid for reads of twice that length, which is half of `digits.len()`,
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

    /// Generates a key of `len` random bytes.
    ///
    /// Does not wait for entropy, see [`random::fill()`](crate::lib::random::fill). Fails with
    /// [`ENOMEM`] if there is no memory for it.
    ///
    /// Context: Process context. May sleep. C: `get_random_bytes()` in `drivers/char/random.c`.
    pub fn random(len: usize) -> Result<Self> {
        let mut key = Self::zeroed(len)?;
        random::fill(&mut key.bytes);
        Ok(key)
    }

    /// Returns a key of `len` zero bytes. A `len` that is too large does not print a warning.
    pub(crate) fn zeroed(len: usize) -> Result<Self> {
        Ok(Self {
            bytes: KVec::zeroed(len, GFP_KERNEL | __GFP_NOWARN)?,
        })
    }

    /// Returns the secret.
    ///
    /// Context: Any context. Never sleeps.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Overwrites the secret with another secret of the same length. Allocates nothing.
    ///
    /// Fails with [`EINVAL`] if the lengths differ.
    ///
    /// Context: Any context. Never sleeps.
    pub fn replace(&mut self, bytes: &[u8]) -> Result {
        if bytes.len() != self.bytes.len() {
            return Err(EINVAL);
        }
        self.bytes.copy_from_slice(bytes);
        Ok(())
    }

    /// Overwrites the secret with the concatenation of `parts`.
    ///
    /// Fails with [`EINVAL`] if the total length differs. The secret may then be partially
    /// overwritten.
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

impl Drop for SecretBytes {
    fn drop(&mut self) {
        self.wipe();
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretBytes({} bytes)", self.bytes.len())
    }
}

impl LowerHex for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_bytes() {
            f.write_char(digit(byte >> 4))?;
            f.write_char(digit(byte & 0xf))?;
        }
        Ok(())
    }
}

/// Returns the hexadecimal digit of a value below 16, in constant time: without a table or a
/// branch.
fn digit(value: u8) -> char {
    // The borrow of `9 - value` sets all upper bits for values above 9.
    // 0x27 is `'a' - '0' - 10`.
    let letter = (u32::from(value).wrapping_neg().wrapping_add(9) >> 4) & 0x27;

    char::from(value.wrapping_add(b'0').wrapping_add(letter as u8))
}

/// Zeroes `bytes`. The compiler does not remove the write, even if the bytes are not read again.
///
/// For secrets on the stack. A [`SecretBytes`] wipes its bytes itself.
///
/// Context: Any context. Never sleeps.
#[inline]
pub fn memzero_explicit(bytes: &mut [u8]) {
    // SAFETY: `bytes` is valid for writes of its length.
    unsafe { bindings::memzero_explicit(bytes.as_mut_ptr().cast(), bytes.len()) };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_secret)]
mod tests {
    use super::*;
    use kernel::str::CString;

    #[test]
    fn hex_round_trip() -> Result {
        let key = SecretBytes::from_hex(b"00Ff10a9E7")?;

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
            let key = SecretBytes::new(&[byte])?;
            let expected = CString::try_from_fmt(fmt!("{byte:02x}"))?;

            assert_eq!(
                CString::try_from_fmt(fmt!("{key:x}"))?.to_bytes(),
                expected.to_bytes()
            );
        }
        Ok(())
    }

    /// An output that fails once, after a number of characters.
    struct FailsOnce(usize);

    impl Write for FailsOnce {
        fn write_str(&mut self, _: &str) -> fmt::Result {
            let room = self.0.checked_sub(1);
            self.0 = room.unwrap_or(usize::MAX);
            room.map(drop).ok_or(fmt::Error)
        }
    }

    #[test]
    fn error_of_the_output_is_returned() -> Result {
        let key = SecretBytes::new(&[0x12, 0x34])?;

        for room in 0..4 {
            assert!(write!(FailsOnce(room), "{key:x}").is_err());
        }
        assert!(write!(FailsOnce(4), "{key:x}").is_ok());
        Ok(())
    }

    /// The kernel warns of an allocation order above the maximum of the page allocator.
    #[test]
    fn oversized_secret_is_rejected() {
        for len in [1 << 23, 1 << 48, usize::MAX] {
            assert_eq!(SecretBytes::random(len).err(), Some(ENOMEM));
        }
    }

    #[test]
    fn unpaired_digit_is_ignored() -> Result {
        assert_eq!(SecretBytes::from_hex(b"abc")?.as_bytes(), &[0xab]);
        assert_eq!(SecretBytes::from_hex(b"a")?.as_bytes(), &[]);
        assert_eq!(SecretBytes::from_hex(b"")?.as_bytes(), &[]);
        Ok(())
    }

    #[test]
    fn invalid_hex_digits_are_rejected() {
        for digits in [b"0g", b"g0", b"0 ", b"-1", b"0\0"] {
            assert_eq!(SecretBytes::from_hex(digits).err(), Some(EINVAL));
        }
    }

    #[test]
    fn random_keys_differ() -> Result {
        let key = SecretBytes::random(32)?;

        assert_eq!(key.as_bytes().len(), 32);
        assert!(key.as_bytes() != SecretBytes::random(32)?.as_bytes());
        assert_eq!(SecretBytes::random(0)?.as_bytes(), &[]);
        Ok(())
    }

    #[test]
    fn debug_hides_the_secret() -> Result {
        let key = SecretBytes::new(b"secret")?;

        assert_eq!(
            CString::try_from_fmt(fmt!("{key:?}"))?.to_bytes(),
            b"SecretBytes(6 bytes)"
        );
        Ok(())
    }

    #[test]
    fn replace_rejects_another_length() -> Result {
        let mut key = SecretBytes::new(b"secret")?;

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
        let mut key = SecretBytes::new(&[0xa5; 64])?;

        key.wipe();

        assert_eq!(key.as_bytes(), &[0; 64]);
        Ok(())
    }
}
