// SPDX-License-Identifier: GPL-2.0

//! The queue of one CPU.

use kernel::prelude::*;

use super::counters::Counters;

/// The number of slots in C's rings. One slot stays free.
pub const RING_SIZE: usize = 256;

/// A value in the ring.
struct Entry<T> {
    value: T,
    /// The number of flushes that had begun when the value was queued.
    counter: u64,
}

/// A FIFO of at most `SIZE` - 1 values that wait for a flush.
///
/// It has no lock, and does not allocate. [`FlushQueue`](super::FlushQueue) has one for each CPU.
/// `SIZE` must be a power of two, checked at compile time.
///
/// # Invariants
///
/// `head` and `tail` are less than `SIZE`. The slots from `head` up to `tail`, with wrap-around,
/// have entries. All other slots are empty.
pub struct Ring<T, const SIZE: usize = RING_SIZE> {
    head: usize,
    tail: usize,
    entries: [Option<Entry<T>>; SIZE],
}

impl<T, const SIZE: usize> Ring<T, SIZE> {
    /// The mask for indices.
    const MASK: usize = {
        assert!(
            SIZE.is_power_of_two() && SIZE > 1,
            "the size of a ring is a power of two"
        );
        SIZE - 1
    };

    /// Creates an empty ring.
    ///
    /// Context: Any context. Never sleeps.
    pub fn new() -> impl Init<Self> {
        const { assert!(Self::MASK > 0) };
        // INVARIANT: It is empty.
        init!(Self {
            head: 0,
            tail: 0,
            entries <- pin_init::init_array_from_fn(|_| None),
        })
    }

    /// Returns whether there is no room for another value.
    ///
    /// Context: Any context. Never sleeps. C: `fq_full()` in `drivers/iommu/dma-iommu.c`.
    #[inline]
    pub fn is_full(&self) -> bool {
        Self::after(self.tail) == self.head
    }

    /// Returns the number of values.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) & Self::MASK
    }

    /// Returns whether there are no values.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Adds `value`, and passes the values whose flush has ended to `free`.
    ///
    /// If the ring is full, calls `flush` until there is room. One call is enough, unless earlier
    /// flushes still run and end later.
    ///
    /// Context: The context of `flush` and `free`. C: `queue_iova()` in
    /// `drivers/iommu/dma-iommu.c`, the part under the lock of the ring.
    #[inline]
    pub fn queue(
        &mut self,
        value: T,
        counters: &Counters,
        mut flush: impl FnMut(),
        mut free: impl FnMut(T),
    ) {
        self.free_flushed(counters, &mut free);
        while self.is_full() {
            counters.flush(&mut flush);
            self.free_flushed(counters, &mut free);
        }

        let counter = counters.started();
        if let Some(slot) = self.entries.get_mut(self.tail) {
            // INVARIANT: Adds one entry. The slot was empty, as the ring is not full.
            *slot = Some(Entry { value, counter });
            self.tail = Self::after(self.tail);
        }
    }

    /// Passes the values whose flush has ended to `free`, in FIFO order.
    ///
    /// Context: The context of `free`. C: `fq_ring_free_locked()` in `drivers/iommu/dma-iommu.c`.
    #[inline]
    pub fn free_flushed(&mut self, counters: &Counters, mut free: impl FnMut(T)) {
        let finished = counters.finished();

        while let Some(value) = self.pop(finished) {
            free(value);
        }
    }

    /// Removes the first value if fewer than `finished` flushes had begun when it was queued.
    #[inline]
    fn pop(&mut self, finished: u64) -> Option<T> {
        let slot = self.entries.get_mut(self.head)?;
        let entry = slot.take_if(|entry| entry.counter < finished)?;

        // INVARIANT: Removes one entry: the slot is empty now.
        self.head = Self::after(self.head);
        Some(entry.value)
    }

    /// Returns the index after `index`.
    #[inline]
    fn after(index: usize) -> usize {
        // OVERFLOW: `index` is less than `SIZE`.
        (index + 1) & Self::MASK
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_iova_ring)]
mod tests {
    use super::*;

    use core::cell::Cell;

    fn ring<T, const SIZE: usize>() -> Result<KBox<Ring<T, SIZE>>> {
        KBox::init(Ring::new(), GFP_KERNEL)
    }

    /// Queues a value, and returns the number of freed values.
    fn queue<const SIZE: usize>(
        ring: &mut Ring<u64, SIZE>,
        value: u64,
        counters: &Counters,
    ) -> usize {
        let before = ring.len();
        let mut freed = 0;
        ring.queue(value, counters, || {}, |_| freed += 1);
        // Every value that left the ring was freed.
        if ring.len() + freed == before + 1 {
            freed
        } else {
            usize::MAX
        }
    }

    #[test]
    fn one_slot_stays_free() -> Result {
        fn fill<const SIZE: usize>() -> Result<(usize, bool)> {
            let counters = Counters::new();
            let mut ring = ring::<u64, SIZE>()?;
            for value in 1..SIZE as u64 {
                queue(&mut ring, value, &counters);
            }
            Ok((ring.len(), ring.is_full() && counters.started() == 0))
        }

        assert_eq!(fill::<2>()?, (1, true));
        assert_eq!(fill::<8>()?, (7, true));
        assert_eq!(fill::<RING_SIZE>()?, (255, true));
        Ok(())
    }

    #[test]
    fn full_ring_is_flushed_and_emptied() -> Result {
        let counters = Counters::new();
        let mut ring = ring::<u64, 8>()?;

        // Wrap around several times.
        for round in 0..20_u64 {
            for value in 0..6 {
                assert_eq!(queue(&mut ring, value, &counters), 0);
            }
            if round == 0 {
                assert_eq!(queue(&mut ring, 6, &counters), 0);
            }
            assert!(ring.is_full());
            assert_eq!(queue(&mut ring, 7, &counters), 7);
            assert_eq!(counters.finished(), round + 1);
            assert_eq!(ring.len(), 1);
        }
        Ok(())
    }

    #[test]
    fn values_are_freed_in_order() -> Result {
        let counters = Counters::new();
        let mut ring = ring::<u64, 16>()?;
        let mut next = 0;
        let mut in_order = true;

        for value in 0..100 {
            if value % 5 == 0 {
                counters.flush(|| {});
            }
            ring.queue(
                value,
                &counters,
                || {},
                |freed| {
                    in_order &= freed == next;
                    next += 1;
                },
            );
        }
        assert!(in_order);
        assert_eq!(next as usize + ring.len(), 100);
        Ok(())
    }

    /// A flush may miss a value that was queued while it was running.
    #[test]
    fn flush_frees_entries_queued_before_it_began() -> Result {
        let counters = Counters::new();
        let mut ring = ring::<u64, 8>()?;
        queue(&mut ring, 1, &counters);
        counters.flush(|| {
            queue(&mut ring, 2, &counters);
            queue(&mut ring, 3, &counters);
        });
        queue(&mut ring, 4, &counters);
        // The first value was freed when the last one was queued.
        assert_eq!(ring.len(), 3);

        // One more flush begins after all of them were queued.
        counters.flush(|| {});
        let mut freed = 0;
        ring.free_flushed(&counters, |_| freed += 1);
        assert_eq!(freed, 3);
        assert!(ring.is_empty());
        Ok(())
    }

    /// C's ring would look empty here, and lose seven values.
    #[test]
    fn overlapping_flush_frees_no_newer_entries() -> Result {
        let counters = Counters::new();
        let mut ring = ring::<u64, 8>()?;
        let (flushes, freed) = (Cell::new(0), Cell::new(0));

        // Two flushes of other CPUs begin, and take long.
        counters.flush(|| {
            counters.flush(|| {
                for value in 0..8 {
                    ring.queue(
                        value,
                        &counters,
                        || flushes.set(flushes.get() + 1),
                        |_| freed.set(freed.get() + 1),
                    );
                }
            });
        });

        // Only the third flush has made more flushes end than had begun.
        assert_eq!((flushes.get(), freed.get(), ring.len()), (3, 7, 1));
        Ok(())
    }

    #[test]
    fn a_dropped_ring_drops_its_values() -> Result {
        let value = kernel::sync::Arc::new(1_u32, GFP_KERNEL)?;
        let counters = Counters::new();
        let mut ring = ring::<_, 4>()?;
        ring.queue(value.clone(), &counters, || {}, drop);

        drop(ring);
        assert!(kernel::sync::Arc::into_unique_or_drop(value).is_some());
        Ok(())
    }
}
