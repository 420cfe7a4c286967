// SPDX-License-Identifier: GPL-2.0

//! Random numbers.

#[cfg(kscale_kunit)]
use kernel::prelude::*;

use crate::bindings;

/// Fills `bytes` with cryptographically secure random numbers.
///
/// Does not wait for entropy: early at boot the numbers are not good enough for keys.
///
/// Context: Any context. Never sleeps. C: `get_random_bytes()` in `drivers/char/random.c`.
#[inline]
pub fn fill(bytes: &mut [u8]) {
    // SAFETY: `bytes` is valid for writes of its length.
    unsafe { bindings::get_random_bytes(bytes.as_mut_ptr().cast(), bytes.len()) };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_random)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_filled() -> Result {
        // More than a block of the generator, and a part of one.
        for len in [0, 16, 4096, 4112] {
            let mut bytes = KVec::zeroed(len, GFP_KERNEL)?;
            fill(&mut bytes);
            assert!(bytes.chunks(16).all(|part| *part != [0; 16]));
        }
        Ok(())
    }
}
