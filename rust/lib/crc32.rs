// SPDX-License-Identifier: GPL-2.0

//! The checksum CRC-32 of IEEE 802.3.
//!
//! For formats that have it. It finds damage, not changes that are made on purpose.
//!
//! C header: [`include/linux/crc32.h`](srctree/include/linux/crc32.h)

#[cfg(kscale_kunit)]
use kernel::prelude::*;

use crate::bindings;

/// Returns `crc`, continued by `bytes`, least significant bit first.
///
/// Nothing is inverted: who wants the common checksum starts with `!0` and inverts the result.
///
/// Context: any.
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
        // The check value of the usual catalogues; the others are `zlib.crc32()` of Python, whose
        // inversions at the start and the end were undone.
        assert_eq!(!crc32(!0, b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(0, b"123456789"), 0x2dfd_2d88);
        assert_eq!(crc32(0, &[0; 4]), 0);
        assert_eq!(crc32(0, &[1, 2, 3, 4]), 0x9778_24d1);
        assert_eq!(crc32(7, b""), 7);
    }

    #[test]
    fn pieces_add_up() {
        assert_eq!(crc32(crc32(5, b"1234"), b"56789"), crc32(5, b"123456789"));
    }
}
