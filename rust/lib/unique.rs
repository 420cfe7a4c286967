// SPDX-License-Identifier: GPL-2.0

//! Numbers that are unique since boot.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

static NEXT: Atomic<u64> = Atomic::new(0);

/// Returns a new number at each call.
///
/// Each list has one. It distinguishes its entries from those of an earlier list at the same
/// address.
pub(crate) fn unique_id() -> u64 {
    // OVERFLOW: A `u64` takes centuries.
    NEXT.fetch_add(1, Relaxed)
}
