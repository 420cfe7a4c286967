// SPDX-License-Identifier: GPL-2.0

//! The FIPS 140 mode of the kernel.
//!
//! C header: [`include/linux/fips.h`](srctree/include/linux/fips.h)

use crate::bindings;

/// Returns whether the kernel was booted with `fips=1`, so that only approved cryptography is
/// allowed.
///
/// Always `false` without `CONFIG_CRYPTO_FIPS`.
///
/// Context: Any context. Never sleeps.
#[inline]
pub fn enabled() -> bool {
    // SAFETY: Reads a variable that does not change after boot, or a constant.
    unsafe { bindings::fips_enabled() }
}
