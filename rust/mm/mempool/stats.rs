// SPDX-License-Identifier: GPL-2.0

//! Statistics of an allocator and its pool.

use kernel::prelude::*;

use super::allocator::Allocator;

use crate::{
    mm::gfp::Gfp,
    percpu::PerCpuInts, //
};

/// Where the memory that a pool gave out came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// How often from [`Allocator::alloc_bulk`].
    pub bulk: u64,
    /// How often from [`Allocator::alloc`].
    pub single: u64,
    /// How often from the reserve.
    pub reserve: u64,
}

/// What was given out.
const TAKEN: usize = 0;

/// What of it came from [`Allocator::alloc_bulk`].
const BULK: usize = 1;

/// What of it came from [`Allocator::alloc`].
const SINGLE: usize = 2;

/// An allocator, with a count of where memory came from.
///
/// Takes a few instructions each time that memory is taken, which other pools do not pay.
#[pin_data]
pub struct Counted<A> {
    #[pin]
    allocator: A,
    counts: PerCpuInts<u64, 3>,
}

impl<A: Allocator> Counted<A> {
    /// Counts from 0.
    ///
    /// Fails with [`ENOMEM`], and as `allocator` does.
    ///
    /// Context: process. May sleep.
    pub fn new<E>(allocator: impl PinInit<A, E>) -> impl PinInit<Self, Error>
    where
        Error: From<E>,
    {
        try_pin_init!(Self {
            allocator <- allocator,
            counts: PerCpuInts::new()?,
        })
    }

    /// Returns the allocator that is counted.
    ///
    /// Context: any.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }

    /// Returns where memory came from since the pool was created.
    ///
    /// Exact if nobody takes any meanwhile.
    ///
    /// Context: any. Never sleeps. Visits every possible CPU's cache line.
    pub fn stats(&self) -> Stats {
        // What is taken is counted last, so read that first, or the reserve seems to be used.
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
        // Set by `mempool_adjust_gfp()` in `mm/mempool.c`, but not when the reserve is filled.
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
