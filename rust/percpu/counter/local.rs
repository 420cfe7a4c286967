// SPDX-License-Identifier: GPL-2.0

//! The local counter.

use kernel::prelude::*;

use crate::bindings;

use super::{
    array::Kind,
    raw::Counters, //
};

/// A signed counter whose updates stay with their CPU until they outgrow an [`i32`].
///
/// There is nothing that reads or compares the shared count, which may be off by 2^31 for each CPU:
/// `percpu_counter_read()` and `percpu_counter_compare()` are wrong on such a counter.
///
/// It wraps around at 64 bits, and so does the result of every method.
///
/// # Invariants
///
/// As those of [`PerCpuCounter`](super::PerCpuCounter).
#[pin_data]
#[repr(transparent)]
pub struct LocalPerCpuCounter {
    #[pin]
    counters: Counters<1>,
}

// SAFETY: All it has is a `percpu_counter`.
unsafe impl Kind for LocalPerCpuCounter {}

impl LocalPerCpuCounter {
    /// Creates a counter that starts at `initial`.
    ///
    /// Takes four bytes for every possible CPU.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU storage cannot be allocated.
    ///
    /// Context: process. May sleep.
    pub fn new(initial: i64) -> impl PinInit<Self, Error> {
        // INVARIANT: `Counters` are initialised.
        try_pin_init!(Self {
            counters <- Counters::new(initial),
        })
    }

    /// Adds `amount`, which may be negative.
    ///
    /// An amount within 2^31 of [`i64::MIN`] or [`i64::MAX`] may get lost: C takes the absolute value
    /// of its sum with this CPU's delta, which wraps, and that of [`i64::MIN`] is no `i64`.
    ///
    /// Context: any but NMI. Never sleeps. Takes the counter's lock if this CPU's delta reaches
    /// 2^31 - 1 either way. C: `percpu_counter_add_local()`.
    #[inline]
    pub fn add(&self, amount: i64) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_add_local(self.counters.get(), amount) };
    }

    /// Subtracts `amount`, which may be negative.
    ///
    /// Otherwise as [`add`](Self::add).
    ///
    /// Context: any but NMI. Never sleeps.
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// Returns the sum over all CPUs.
    ///
    /// It is exact if no CPU updates the counter meanwhile. Otherwise every update that ends before
    /// the call counts, and any of those made meanwhile may or may not.
    ///
    /// Context: any but NMI. Never sleeps. Takes the counter's lock, and visits every online CPU's
    /// cache line with interrupts off: keep it off fast paths.
    #[inline]
    pub fn sum(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::__percpu_counter_sum(self.counters.get()) }
    }

    /// Returns [`sum`](Self::sum), or 0 if that is negative.
    ///
    /// Context and cost: as [`sum`](Self::sum).
    #[inline]
    pub fn sum_positive(&self) -> i64 {
        self.sum().max(0)
    }

    /// Sets the counter to `amount`.
    ///
    /// Exclusive, as an update that ran meanwhile could get lost.
    ///
    /// Context: any but NMI. Never sleeps. Visits every possible CPU's cache line.
    #[inline]
    pub fn set(self: Pin<&mut Self>, amount: i64) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_set(self.counters.get(), amount) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_counter_local)]
mod tests {
    use super::*;

    fn counter(initial: i64) -> Result<Pin<KBox<LocalPerCpuCounter>>> {
        KBox::try_pin_init(LocalPerCpuCounter::new(initial), GFP_KERNEL)
    }

    /// The shared count, which users cannot see.
    fn count(counter: &LocalPerCpuCounter) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_read_once(counter.counters.get()) }
    }

    #[test]
    fn sum_starts_at_the_initial_value() -> Result {
        for initial in [i64::MIN, -7, 0, 7, i64::MAX] {
            let counter = counter(initial)?;

            assert_eq!(counter.sum(), initial);
            assert_eq!(counter.sum_positive(), initial.max(0));
        }
        Ok(())
    }

    #[test]
    fn a_delta_is_folded_when_it_outgrows_an_i32() -> Result {
        const MAX: i64 = i32::MAX as i64;
        // Amount, shared count after. One add, as a second one may run on another CPU.
        const ROWS: [(i64, i64); 8] = [
            (1, 0),
            (MAX - 1, 0),
            (MAX, MAX),
            (MAX + 1, MAX + 1),
            (1 - MAX, 0),
            (-MAX, -MAX),
            (i64::MAX, i64::MAX),
            (-i64::MAX, -i64::MAX),
        ];

        for (amount, folded) in ROWS {
            let counter = counter(0)?;

            counter.add(amount);

            assert_eq!(count(&counter), folded);
            assert_eq!(counter.sum(), amount);
        }
        Ok(())
    }

    #[test]
    fn sum_is_exact_across_the_largest_deltas() -> Result {
        const STEP: i64 = i32::MAX as i64 / 2;
        let counter = counter(0)?;

        for _ in 0..100 {
            counter.add(STEP);
        }
        assert_eq!(counter.sum(), 100 * STEP);
        for _ in 0..200 {
            counter.sub(STEP);
        }
        assert_eq!(counter.sum(), -100 * STEP);
        Ok(())
    }

    #[test]
    fn set_forgets_every_delta() -> Result {
        let mut counter = counter(1)?;
        counter.add(20);

        counter.as_mut().set(-5);

        assert_eq!(counter.sum(), -5);
        assert_eq!(counter.sum_positive(), 0);
        Ok(())
    }
}
