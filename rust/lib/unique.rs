// SPDX-License-Identifier: GPL-2.0

//! Numbers that are used once.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

static NEXT: Atomic<u64> = Atomic::new(0);

/// Returns a number that it has not returned before.
///
/// Lists have one each, which tells their entries from those of a list that was at the same address
/// before.
pub(crate) fn unique_id() -> u64 {
    // OVERFLOW: Not in centuries.
    NEXT.fetch_add(1, Relaxed)
}
