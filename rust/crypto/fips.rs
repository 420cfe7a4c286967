// SPDX-License-Identifier: GPL-2.0

//! Whether the kernel keeps to FIPS 140.
//!
//! C header: [`include/linux/fips.h`](srctree/include/linux/fips.h)

use crate::bindings;

/// Returns whether only approved cryptography is to be used: the kernel was booted with `fips=1`.
///
/// Never so without `CONFIG_CRYPTO_FIPS`.
///
/// Context: any.
#[inline]
pub fn enabled() -> bool {
    // SAFETY: Reads a variable that does not change after boot, or a constant.
    unsafe { bindings::fips_enabled() }
}
