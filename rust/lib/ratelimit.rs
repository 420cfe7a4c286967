// SPDX-License-Identifier: GPL-2.0

//! The rate limit of log messages.

use kernel::prelude::*;

use crate::bindings;

/// Returns whether a message may be printed now, by the kernel's `printk` rate limit.
///
/// All callers share the limit. The number of suppressed messages is printed before the next one.
///
/// Context: Any context. Never sleeps. C: `printk_ratelimit()`.
#[cold]
pub fn printk_ratelimit() -> bool {
    // SAFETY: The name is a C string, and is only printed.
    unsafe { bindings::__printk_ratelimit(c"kscale".as_char_ptr()) != 0 }
}
