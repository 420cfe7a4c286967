// SPDX-License-Identifier: GPL-2.0

//! Messages that must not flood the log.

use kernel::prelude::*;

use crate::bindings;

/// Tells whether a message may be printed now: a few in a row, and then some seconds later again.
///
/// All who ask share the same few, and how many were suppressed is printed with the next.
///
/// Context: Any. C: `printk_ratelimit()`.
#[cold]
pub fn may_print() -> bool {
    // SAFETY: The name is a C string, which is only printed.
    unsafe { bindings::__printk_ratelimit(c"kscale".as_char_ptr()) != 0 }
}
