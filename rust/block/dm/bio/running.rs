// SPDX-License-Identifier: GPL-2.0

//! Functions of work items that no worker runs for an item at the same address.
//!
//! The kernel takes an item for one that a worker runs if both have the same address and the same
//! function, and runs it after that one (`find_worker_executing_work()` in `kernel/workqueue.c`). A
//! function of a bio may end the bio, so that another bio gets its memory, or pass the bio to another
//! queue. Then it may wait for the other function. So the library has several functions that do the same,
//! and uses one that is not running.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The number of functions: a function that waits for the next one, and so on, form a chain of at most
/// this length.
pub(in crate::block::dm) const FUNCTIONS: usize = 8;

/// For the addresses with one hash, the number of workers that run each function, one byte each.
///
/// If a byte overflows, an item may wait without need. That takes 256 workers that run one function for
/// items whose addresses have the same hash.
static RUNNING: [Atomic<u64>; 1 << HASH_BITS] = [const { Atomic::new(0) }; 1 << HASH_BITS];
const HASH_BITS: u32 = 10;

/// `GOLDEN_RATIO_64` in `include/linux/hash.h`.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// Returns the counts for an address.
#[inline]
fn counts(address: usize) -> Option<&'static Atomic<u64>> {
    // CAST: To 64 bits, and a hash of few bits.
    let hash = (address as u64).wrapping_mul(GOLDEN_RATIO) >> (u64::BITS - HASH_BITS);
    RUNNING.get(hash as usize)
}

/// Returns the number of a function that no worker runs for an item at `address`. If all are running,
/// returns the first.
///
/// The caller owns the memory at `address`. So it sees the counts of workers that had it before.
pub(super) fn unused(address: usize) -> usize {
    let counts = counts(address).map_or(0, |counts| counts.load(Relaxed));
    (0..FUNCTIONS)
        .find(|number| (counts >> (8 * number)) & 0xff == 0)
        .unwrap_or(0)
}

/// Counts a worker that runs a function, until this is dropped.
pub(in crate::block::dm) struct Running {
    counts: Option<&'static Atomic<u64>>,
    one: u64,
}

impl Running {
    /// Counts a worker that runs the function with the `number` for an item at `address`.
    #[inline]
    pub(in crate::block::dm) fn new(address: usize, number: usize) -> Self {
        let (counts, one) = (counts(address), 1 << (8 * number));
        if let Some(counts) = counts {
            counts.fetch_add(one, Relaxed);
        }
        Self { counts, one }
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if let Some(counts) = self.counts {
            counts.fetch_sub(self.one, Relaxed);
        }
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_dm_running)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_is_running_is_not_used() {
        let place = 0_u64;
        let address = (&raw const place).addr();
        let mut running = [const { None }; FUNCTIONS];
        let mut is_next = true;

        for (number, each) in running.iter_mut().enumerate() {
            is_next &= unused(address) == number;
            *each = Some(Running::new(address, number));
        }
        // All functions are running.
        let last = unused(address);
        drop(running);

        assert!(is_next);
        assert_eq!(last, 0);
        assert_eq!(unused(address), 0);
    }
}
