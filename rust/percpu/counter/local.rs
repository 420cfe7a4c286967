// SPDX-License-Identifier: GPL-2.0

//! The local counter.

use kernel::prelude::*;

use crate::bindings;

use super::{
    array::Kind,
    raw::Counters, //
};

/// A signed counter whose updates stay in the CPU's delta until the delta overflows an [`i32`].
///
/// The shared count cannot be read or compared: it may be off by 2^31 per CPU. So
/// `percpu_counter_read()` and `percpu_counter_compare()` are wrong for such a counter.
///
/// The counter and the results of all methods wrap at 64 bits.
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

// SAFETY: The only field is a `percpu_counter`.
unsafe impl Kind for LocalPerCpuCounter {}

impl LocalPerCpuCounter {
    /// Creates a counter with the value `initial`.
    ///
    /// Takes four bytes per possible CPU.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU memory cannot be allocated, and with [`EINVAL`] on the
    /// stack.
    ///
    /// Context: Process context. May sleep.
    pub fn new(initial: i64) -> impl PinInit<Self, Error> {
        // INVARIANT: `Counters` are initialised.
        try_pin_init!(Self {
            counters <- Counters::new(initial),
        })
    }

    /// Adds `amount`, which may be negative.
    ///
    /// An amount within 2^31 of [`i64::MIN`] or [`i64::MAX`] may be lost. C takes the absolute
    /// value of the sum of the amount and this CPU's delta. The sum wraps, and the absolute value
    /// of [`i64::MIN`] is not an `i64`.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the counter's lock if this CPU's delta
    /// reaches 2^31 - 1 in either direction. C: `percpu_counter_add_local()` in
    /// `include/linux/percpu_counter.h`.
    #[inline]
    pub fn add(&self, amount: i64) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_add_local(self.counters.get(), amount) };
    }

    /// Subtracts `amount`, which may be negative.
    ///
    /// Amounts that may be lost: as for [`add`](Self::add).
    ///
    /// Context: As [`add`](Self::add).
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.add(amount.wrapping_neg());
    }

    /// Returns the sum over all CPUs.
    ///
    /// The sum is exact if no CPU updates the counter concurrently. Otherwise it includes every
    /// update that ended before the call, and may include concurrent updates.
    ///
    /// Context: Any context except NMI. Never sleeps. Takes the counter's lock, and visits every
    /// online CPU's cache line with interrupts disabled: avoid it on fast paths. C:
    /// `__percpu_counter_sum()` in `lib/percpu_counter.c`.
    #[inline]
    pub fn sum(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::__percpu_counter_sum(self.counters.get()) }
    }

    /// Returns [`sum`](Self::sum), or 0 if the sum is negative.
    ///
    /// Context: As [`sum`](Self::sum).
    #[inline]
    pub fn sum_positive(&self) -> i64 {
        self.sum().max(0)
    }

    /// Sets the counter to `amount`.
    ///
    /// Takes `&mut self`, because a concurrent update could be lost.
    ///
    /// Context: Any context except NMI. Never sleeps. Visits every possible CPU's cache line. C:
    /// `percpu_counter_set()` in `lib/percpu_counter.c`.
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

    /// Returns the shared count, which is not public.
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
    fn delta_is_folded_beyond_i32() -> Result {
        const MAX: i64 = i32::MAX as i64;
        // Amount, shared count after one add. A second add may run on another CPU.
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
