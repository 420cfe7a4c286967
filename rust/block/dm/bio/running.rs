// SPDX-License-Identifier: GPL-2.0

//! Functions of work items that no worker runs for an item at the same address.
//!
//! The kernel takes an item for one that a worker runs if both have the same address and the same
//! function, and runs it after that one (`find_worker_executing_work()` in `kernel/workqueue.c`). A
//! function of a bio may end the bio, so that another bio gets its memory, or pass the bio to
//! another queue. Then it may wait for the other function. So the library has several functions
//! that do the same, and uses one that is not running. If all are running, it allocates the item.
//!
//! A hash table has the address and the function of each running item. It has no locks: any context
//! may queue a bio. It has no nodes on the stack: a function that panics does not return.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The number of functions for items at one address.
pub(in crate::block::dm) const FUNCTIONS: usize = 8;

/// The bits of an address that are 0, as the data of a bio is aligned to 8 bytes. They have the
/// number of the function.
const NUMBER_MASK: usize = FUNCTIONS - 1;

/// The number of items that can be in the table.
const SLOTS: usize = 1 << HASH_BITS;
const HASH_BITS: u32 = 12;

/// The running items: the address of each, plus the number of its function. A free slot is 0.
///
/// An item is in the first free slot from the hash of its address on.
static RUNNING: [Atomic<usize>; SLOTS] = [const { Atomic::new(0) }; SLOTS];

/// The largest number of slots that it took to find a free one.
static PROBES: Atomic<usize> = Atomic::new(0);

/// The number of running items that are not in the table.
static OTHERS: Atomic<usize> = Atomic::new(0);

/// `GOLDEN_RATIO_64` in `include/linux/hash.h`.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// Returns the slots, from the hash of an address on.
#[inline]
fn slots(address: usize) -> impl Iterator<Item = &'static Atomic<usize>> {
    // CAST: To 64 bits, and a hash of few bits.
    let hash = (address as u64).wrapping_mul(GOLDEN_RATIO) >> (u64::BITS - HASH_BITS);
    let (before, from) = RUNNING.split_at(hash as usize % SLOTS);
    from.iter().chain(before)
}

/// Returns the number of a function that no worker runs for an item at `address`.
///
/// The caller owns the memory at `address`. So it sees the entries of workers that had it before.
pub(super) fn unused(address: usize) -> Option<usize> {
    if OTHERS.load(Relaxed) != 0 {
        return None;
    }
    let mut running = 0_u32;
    for slot in slots(address).take(PROBES.load(Relaxed)) {
        let entry = slot.load(Relaxed);
        if entry & !NUMBER_MASK == address {
            running |= 1 << (entry & NUMBER_MASK);
        }
    }
    (0..FUNCTIONS).find(|number| running & (1 << number) == 0)
}

/// The entry of a worker that runs a function, until this is dropped.
pub(in crate::block::dm) struct Running {
    slot: Option<&'static Atomic<usize>>,
}

impl Running {
    /// Adds a worker that runs the function with the `number` for an item at `address`.
    #[inline]
    pub(in crate::block::dm) fn new(address: usize, number: usize) -> Self {
        let entry = address | number;
        let slot = slots(address).enumerate().find_map(|(index, slot)| {
            if slot.load(Relaxed) != 0 {
                return None;
            }
            // Before the entry: `unused()` sees both.
            raise_probes(index.wrapping_add(1));
            slot.cmpxchg(0, entry, Relaxed).is_ok().then_some(slot)
        });
        if slot.is_none() {
            OTHERS.add(1, Relaxed);
        }
        Self { slot }
    }
}

impl Drop for Running {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.store(0, Relaxed);
        } else {
            OTHERS.fetch_sub(1, Relaxed);
        }
    }
}

/// Raises [`PROBES`] to `probes`.
#[inline]
fn raise_probes(probes: usize) {
    let mut known = PROBES.load(Relaxed);
    while known < probes {
        match PROBES.cmpxchg(known, probes, Relaxed) {
            Ok(_) => break,
            Err(other) => known = other,
        }
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_dm_running)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    /// Returns the address of memory that no bio has.
    fn address_of(place: &u64) -> usize {
        core::ptr::from_ref(place).addr()
    }

    #[test]
    fn a_function_that_is_running_is_not_used() {
        let place = 0_u64;
        let address = address_of(&place);
        let mut running = [const { None }; FUNCTIONS];
        let mut is_next = true;

        for (number, each) in running.iter_mut().enumerate() {
            is_next &= unused(address) == Some(number);
            *each = Some(Running::new(address, number));
        }
        // All functions are running.
        let last = unused(address);
        if let Some(each) = running.get_mut(5) {
            *each = None;
        }
        let free = unused(address);
        drop(running);

        assert!(is_next);
        assert_eq!((last, free), (None, Some(5)));
        assert_eq!(unused(address), Some(0));
    }

    #[test]
    fn functions_that_run_for_other_addresses_may_be_used() -> Result {
        // More than there are functions.
        const OTHERS: usize = 100;
        let place = 0_u64;
        let address = address_of(&place);
        let first = slots(address).next().map(core::ptr::from_ref);
        let others = (1..).map(|index| address.wrapping_add(8 * index));
        let others = others.filter(|&it| slots(it).next().map(core::ptr::from_ref) == first);
        let mut running = KVec::with_capacity(OTHERS, GFP_KERNEL)?;

        for (index, other) in others.take(OTHERS).enumerate() {
            drop(running.push_within_capacity(Running::new(other, index % FUNCTIONS)));
        }
        let beside_others = unused(address);
        let own = Running::new(address, 0);
        let beside_own = unused(address);
        // Entries before it are free now.
        drop(running);
        let alone = unused(address);
        drop(own);

        let found = (beside_others, beside_own, alone);
        assert_eq!(found, (Some(0), Some(1), Some(1)));
        assert_eq!(unused(address), Some(0));
        Ok(())
    }

    #[test]
    fn no_function_is_unused_beside_items_without_a_slot() -> Result {
        let place = 0_u64;
        let address = address_of(&place);
        let mut running = KVec::with_capacity(SLOTS, GFP_KERNEL)?;

        for index in 1..=SLOTS {
            drop(running.push_within_capacity(Running::new(address.wrapping_add(8 * index), 0)));
        }
        let with_slots = unused(address);
        let own = Running::new(address, 0);
        let without = unused(address);
        drop(running);
        let alone = unused(address);
        drop(own);

        assert_eq!((with_slots, without, alone), (Some(0), None, None));
        assert_eq!(unused(address), Some(0));
        Ok(())
    }
}
