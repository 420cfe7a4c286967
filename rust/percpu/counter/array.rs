// SPDX-License-Identifier: GPL-2.0

//! Counters that share one allocation.

use kernel::prelude::*;

use core::marker::PhantomData;

use crate::bindings;

use super::{
    raw::Counters,
    PerCpuCounter, //
};

/// A kind of per-CPU counter.
///
/// # Safety
///
/// The type must have the layout of a `percpu_counter`. Its `&self` methods must require only an
/// initialised `percpu_counter`.
pub unsafe trait Kind: Send + Sync + private::Sealed {}

mod private {
    use super::super::{
        LocalPerCpuCounter,
        PerCpuCounter, //
    };

    pub trait Sealed {}

    impl Sealed for PerCpuCounter {}
    impl Sealed for LocalPerCpuCounter {}
}

/// `N` counters of kind `C` with adjacent deltas in one per-CPU allocation.
///
/// For counters that are updated together: their deltas share cache lines. Each counter has its own
/// lock and count. `N` is from 1 to 8192 (checked at compile time).
///
/// # Invariants
///
/// `counters` are initialised while `self` may be borrowed.
#[pin_data]
pub struct PerCpuCounterArray<const N: usize, C: Kind = PerCpuCounter> {
    #[pin]
    counters: Counters<N>,
    _kind: PhantomData<C>,
}

impl<const N: usize, C: Kind> PerCpuCounterArray<N, C> {
    /// Creates counters that all have the value `initial`.
    ///
    /// Takes four bytes per counter and possible CPU.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU memory cannot be allocated, and with [`EINVAL`] on the
    /// stack.
    ///
    /// Context: Process context. May sleep. C: `percpu_counter_init_many()` in
    /// `include/linux/percpu_counter.h`.
    pub fn new(initial: i64) -> impl PinInit<Self, Error> {
        // INVARIANT: `Counters` are initialised.
        try_pin_init!(Self {
            counters <- Counters::new(initial),
            _kind: PhantomData,
        })
    }

    /// Returns the counters, for all operations except [`set`](Self::set).
    ///
    /// A pattern can name the counters: `let [reads, writes] = counters.as_array();`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn as_array(&self) -> &[C; N] {
        // SAFETY: By the type invariants these are `N` initialised counters, which are never
        // borrowed mutably. By the contract of `Kind` a `C` has the layout of a counter.
        unsafe { &*self.counters.get().cast::<[C; N]>() }
    }

    /// Sets the counter at `index` to `amount`.
    ///
    /// Takes `&mut self`, because a concurrent update could be lost.
    ///
    /// Fails with [`EINVAL`] if `index` is not less than `N`.
    ///
    /// Context: Any context except NMI. Never sleeps. Visits every possible CPU's cache line. C:
    /// `percpu_counter_set()` in `lib/percpu_counter.c`.
    pub fn set(self: Pin<&mut Self>, index: usize, amount: i64) -> Result {
        if index >= N {
            return Err(EINVAL);
        }
        // SAFETY: `index` is less than `N`.
        let counter = unsafe { self.counters.get().add(index) };

        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_set(counter, amount) };
        Ok(())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_counter_array)]
mod tests {
    use super::*;

    use super::super::LocalPerCpuCounter;

    use core::num::NonZeroU16;

    fn array<const N: usize, C: Kind>(initial: i64) -> Result<Pin<KBox<PerCpuCounterArray<N, C>>>> {
        KBox::try_pin_init(PerCpuCounterArray::new(initial), GFP_KERNEL)
    }

    #[test]
    fn counters_of_an_array_are_independent() -> Result {
        let counters = array::<3, PerCpuCounter>(7)?;
        let [first, second, third] = counters.as_array();

        first.add(1);
        third.add_batch(-100, NonZeroU16::MIN);

        assert_eq!(first.sum(), 8);
        assert_eq!(second.sum(), 7);
        assert_eq!(third.sum(), -93);
        assert_eq!(third.read(), -93);
        Ok(())
    }

    #[test]
    fn arrays_of_local_counters_work() -> Result {
        let counters = array::<100, LocalPerCpuCounter>(0)?;

        for (amount, counter) in (0..).zip(counters.as_array()) {
            counter.add(amount);
        }

        assert_eq!(
            counters
                .as_array()
                .iter()
                .map(LocalPerCpuCounter::sum)
                .sum::<i64>(),
            (0..100).sum()
        );
        Ok(())
    }

    #[test]
    fn set_changes_one_counter() -> Result {
        let mut counters = array::<2, PerCpuCounter>(1)?;
        for counter in counters.as_array() {
            counter.add(4);
        }

        counters.as_mut().set(1, -2)?;

        let [first, second] = counters.as_array();
        assert_eq!(first.sum(), 5);
        assert_eq!(second.sum(), -2);
        Ok(())
    }

    #[test]
    fn set_beyond_the_array_fails() -> Result {
        let mut counters = array::<2, PerCpuCounter>(1)?;

        for index in [2, usize::MAX] {
            assert_eq!(counters.as_mut().set(index, 0), Err(EINVAL));
        }
        assert!(counters.as_array().iter().all(|counter| counter.sum() == 1));
        Ok(())
    }

    #[test]
    fn largest_array_is_allocated_and_freed() -> Result {
        let counters = array::<8192, LocalPerCpuCounter>(1)?;

        assert_eq!(
            counters.as_array().last().map(LocalPerCpuCounter::sum),
            Some(1)
        );
        Ok(())
    }
}
