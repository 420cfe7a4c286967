// SPDX-License-Identifier: GPL-2.0

//! Statistics of an allocator and its pool.

use kernel::prelude::*;

use super::allocator::Allocator;

use crate::{
    mm::gfp::Gfp,
    percpu::PerCpuInts, //
};

/// The number of elements that a pool has handed out, by origin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// Elements from [`Allocator::alloc_bulk`].
    pub bulk: u64,
    /// Elements from [`Allocator::alloc`].
    pub single: u64,
    /// Elements from the reserve.
    pub reserve: u64,
}

/// The counter of all elements.
const TAKEN: usize = 0;

/// The counter of elements from [`Allocator::alloc_bulk`].
const BULK: usize = 1;

/// The counter of elements from [`Allocator::alloc`].
const SINGLE: usize = 2;

/// An allocator with statistics of the origin of its pool's elements.
///
/// The statistics cost a few instructions for each allocation.
#[pin_data]
pub struct Counted<A> {
    #[pin]
    allocator: A,
    counts: PerCpuInts<u64, 3>,
}

impl<A: Allocator> Counted<A> {
    /// Creates an allocator with all counters at 0.
    ///
    /// Returns [`ENOMEM`], or the error of `allocator` if its initialiser fails.
    ///
    /// Context: Process context. May sleep.
    pub fn new<E>(allocator: impl PinInit<A, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            allocator <- allocator,
            counts: PerCpuInts::new()?,
        })
    }

    /// Returns the inner allocator.
    ///
    /// Context: Any context. Never sleeps.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }

    /// Returns the number of elements by origin since the pool was created.
    ///
    /// Exact only while no elements are being allocated.
    ///
    /// Context: Any context. Never sleeps. Reads one cache line of each possible CPU.
    pub fn stats(&self) -> Stats {
        // `taken()` counts last, so read its counter first: the reserve count must not be too high.
        let taken = self.counts.at::<TAKEN>().sum();
        let bulk = self.counts.at::<BULK>().sum();
        let single = self.counts.at::<SINGLE>().sum();

        Stats {
            bulk,
            single,
            reserve: taken.saturating_sub(bulk).saturating_sub(single),
        }
    }
}

impl<A: Allocator> Allocator for Counted<A> {
    type Memory = A::Memory;

    fn alloc(&self, gfp: Gfp) -> Option<A::Memory> {
        let memory = self.allocator.alloc(gfp)?;
        // `mempool_adjust_gfp()` in `mm/mempool.c` sets the flag, except to fill the reserve.
        if gfp.contains(Gfp::NORETRY) {
            self.counts.at::<SINGLE>().inc();
        }
        Some(memory)
    }

    fn free(&self, memory: A::Memory) {
        self.allocator.free(memory);
    }

    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<A::Memory>]) {
        self.allocator.alloc_bulk(gfp, slots);
        let count = slots.iter().take_while(|slot| slot.is_some()).count();
        // CAST: To 64 bits.
        self.counts.at::<BULK>().add(count as u64);
    }

    fn free_bulk(&self, slots: &mut [Option<A::Memory>]) {
        self.allocator.free_bulk(slots);
    }

    fn taken(&self, count: usize) {
        self.allocator.taken(count);
        // CAST: As above.
        self.counts.at::<TAKEN>().add(count as u64);
    }
}
