// SPDX-License-Identifier: GPL-2.0

//! Random numbers.

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
