// SPDX-License-Identifier: GPL-2.0

//! The checksum CRC-32 of IEEE 802.3.
//!
//! For formats that use it. It detects corruption, but not deliberate changes.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

#[cfg(kscale_kunit)]
use kernel::prelude::*;

use crate::bindings;

/// Continues the checksum `crc` with `bytes`, least significant bit first, and returns the result.
///
/// Does not invert anything: for the common checksum, start with `!0` and invert the result.
///
/// Context: Any context. Never sleeps.
#[inline]
pub fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    // SAFETY: `bytes` is valid for reads of its length.
    unsafe { bindings::crc32_le(crc, bytes.as_ptr().cast(), bytes.len()) }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_crc32)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The first is the check value of CRC catalogues. The others are results of Python's
        // `zlib.crc32()` without its inversions at start and end.
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(0, b"123456789"), 0x2dfd_2d88);
        assert_eq!(crc32(0, &[0; 4]), 0);
        assert_eq!(crc32(0, &[1, 2, 3, 4]), 0x9778_24d1);
        assert_eq!(crc32(7, b""), 7);
    }

    #[test]
    fn crc_of_parts_equals_crc_of_the_whole() {
        assert_eq!(crc32(crc32(5, b"1234"), b"56789"), crc32(5, b"123456789"));
    }
}
