// SPDX-License-Identifier: GPL-2.0

//! The batched counter.

use kernel::prelude::*;

use core::{
    cmp::Ordering,
    num::NonZeroU16, //
};

use crate::bindings;

use super::{
    array::Kind,
    raw::Counters, //
};

/// A signed counter that all CPUs can update without cache-line contention.
///
/// The counter and the results of all methods wrap at 64 bits.
///
/// # Invariants
///
/// A `&self` points to a `percpu_counter` that is initialised while the borrow lasts. `counters`
/// ensures this, or the [array](super::PerCpuCounterArray) that contains the counter.
#[pin_data]
#[repr(transparent)]
pub struct PerCpuCounter {
    #[pin]
    counters: Counters<1>,
}

// SAFETY: The only field is a `percpu_counter`.
unsafe impl Kind for PerCpuCounter {}

impl PerCpuCounter {
    /// Creates a counter with the value `initial`.
    ///
    /// Takes four bytes per possible CPU.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU memory cannot be allocated, and with [`EINVAL`] on the
    /// stack.
    ///
    /// Context: Process context. May sleep. C: `percpu_counter_init()` in
    /// `include/linux/percpu_counter.h`.
    pub fn new(initial: i64) -> impl PinInit<Self, Error> {
        // INVARIANT: `Counters` are initialised.
        try_pin_init!(Self {
            counters <- Counters::new(initial),
        })
    }

    /// Returns the batch of [`add`](Self::add), [`sub`](Self::sub) and [`compare`](Self::compare).
    ///
    /// The batch is the larger of 32 and twice the number of online CPUs. CPU hotplug changes it.
    /// C: `compute_batch_value()` in `lib/percpu_counter.c`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn default_batch() -> NonZeroU16 {
        // SAFETY: The helper only reads an integer that lives as long as the kernel.
        let batch = unsafe { bindings::percpu_counter_batch_once() };

        u16::try_from(batch)
            .ok()
            .and_then(NonZeroU16::new)
            .unwrap_or(NonZeroU16::MAX)
    }

    /// Returns the largest difference between [`read`](Self::read) and [`sum`](Self::sum).
    ///
    /// The bound holds if every update used a batch of at most `batch`, and at most `cpus` CPUs
    /// made updates: the delta of each CPU is less than a batch. With a `batch` of 1 `read` is
    /// exact.
    ///
    /// Context: Any context. Never sleeps.
    pub const fn error_bound(batch: NonZeroU16, cpus: u32) -> u64 {
        // OVERFLOW: A product of 16 and 32 bits has at most 48 bits.
        (batch.get() as u64 - 1) * cpus as u64
    }

    /// Adds `amount`, which may be negative.
    ///
    /// An amount within a batch of [`i64::MIN`] or [`i64::MAX`] may be lost. C takes the absolute
    /// value of the sum of the amount and this CPU's delta. The sum wraps, and the absolute value
    /// of [`i64::MIN`] is not an `i64`.
    ///
    /// Takes the counter's lock when this CPU's delta reaches
    /// [`default_batch()`](Self::default_batch). So each call takes the lock if `amount` is that
    /// large.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `percpu_counter_add()` in
    /// `include/linux/percpu_counter.h`.
    #[inline]
    pub fn add(&self, amount: i64) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_add(self.counters.get(), amount) };
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

    /// Adds `amount`, and folds this CPU's delta into the count when the delta reaches `batch`.
    ///
    /// A larger batch makes updates cheaper and approximate reads less exact: see
    /// [`error_bound()`](Self::error_bound). Amounts that may be lost: as for [`add`](Self::add).
    ///
    /// Context: Any context except NMI. Never sleeps. C: `percpu_counter_add_batch()` in
    /// `lib/percpu_counter.c`.
    #[inline]
    pub fn add_batch(&self, amount: i64, batch: NonZeroU16) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe {
            bindings::percpu_counter_add_batch(self.counters.get(), amount, i32::from(batch.get()))
        };
    }

    /// Returns the shared count, without the deltas that CPUs have not folded.
    ///
    /// See [`error_bound()`](Self::error_bound) for its error.
    ///
    /// Context: Any context. Never sleeps. C: `percpu_counter_read()` in
    /// `include/linux/percpu_counter.h`.
    #[inline]
    pub fn read(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_read_once(self.counters.get()) }
    }

    /// Returns [`read`](Self::read), or 0 if the shared count is negative.
    ///
    /// For sums that are never negative: the shared count may still be negative.
    ///
    /// Context: Any context. Never sleeps. C: `percpu_counter_read_positive()` in
    /// `include/linux/percpu_counter.h`.
    #[inline]
    pub fn read_positive(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_read_positive(self.counters.get()) }
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

    /// Compares the sum over all CPUs with `rhs`.
    ///
    /// The result is as exact as [`sum`](Self::sum) if
    ///
    /// - every update was by [`add`](Self::add), [`sub`](Self::sub) or with a smaller batch. After
    ///   larger batches use [`compare_batch`](Self::compare_batch);
    /// - no CPU goes offline during the call, or has gone offline since the remaining CPUs
    ///   accumulated their deltas. This lowers [`default_batch()`](Self::default_batch), possibly
    ///   below these deltas;
    /// - the two values are less than 2^63 apart.
    ///
    /// Context: Any context except NMI. Never sleeps. Cheap if the distance of the count from `rhs`
    /// is more than the default batch times the number of online CPUs. Otherwise it costs a
    /// [`sum`](Self::sum). For limits that a load stays close to use a
    /// [limiter](crate::percpu::limiter). C: `__percpu_counter_compare()` in
    /// `lib/percpu_counter.c`.
    #[inline]
    pub fn compare(&self, rhs: i64) -> Ordering {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_compare(self.counters.get(), rhs) }.cmp(&0)
    }

    /// Compares the sum over all CPUs with `rhs`, after updates with batches of at most `batch`.
    ///
    /// Otherwise as [`compare`](Self::compare), with `batch` instead of the default batch.
    ///
    /// Context: As [`compare`](Self::compare).
    #[inline]
    pub fn compare_batch(&self, rhs: i64, batch: NonZeroU16) -> Ordering {
        // OVERFLOW: `__percpu_counter_compare()` in `lib/percpu_counter.c` multiplies the batch by
        // the number of CPUs in 32 bits: the batch has 16 bits, and `NR_CPUS` has less than 16
        // bits.
        //
        // SAFETY: The counter is initialised by the type invariants.
        unsafe {
            bindings::__percpu_counter_compare(self.counters.get(), rhs, i32::from(batch.get()))
        }
        .cmp(&0)
    }

    /// Compares [`read`](Self::read), the approximate count, with `rhs`.
    ///
    /// The result is right if the distance between the sum over all CPUs and `rhs` is more than the
    /// [`error_bound()`](Self::error_bound).
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn compare_approx(&self, rhs: i64) -> Ordering {
        self.read().cmp(&rhs)
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

    /// Folds this CPU's delta into the shared count.
    ///
    /// Call it on every CPU to make [`read`](Self::read) more exact for some time, for example
    /// after the batch of the updates was reduced. Otherwise an old delta stays until the next
    /// update on its CPU.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `percpu_counter_sync()` in
    /// `lib/percpu_counter.c`.
    #[inline]
    pub fn sync(&self) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_sync(self.counters.get()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_counter)]
mod tests {
    use super::*;

    use kernel::sync::Arc;

    use crate::testing::task::run_jobs;

    /// A batch that no test reaches, so that every delta stays with its CPU.
    const NEVER_FOLD: NonZeroU16 = NonZeroU16::MAX;

    /// The batch that folds every delta at once.
    const ALWAYS_FOLD: NonZeroU16 = NonZeroU16::MIN;

    fn counter(initial: i64) -> Result<Pin<KBox<PerCpuCounter>>> {
        KBox::try_pin_init(PerCpuCounter::new(initial), GFP_KERNEL)
    }

    #[test]
    fn counters_are_not_on_the_stack() {
        pin_init::stack_try_pin_init!(let counter: PerCpuCounter = PerCpuCounter::new(5));

        assert!(matches!(counter, Err(error) if error == EINVAL));
    }

    #[test]
    fn reads_start_at_the_initial_value() -> Result {
        for initial in [i64::MIN, -7, 0, 7, i64::MAX] {
            let counter = counter(initial)?;

            assert_eq!(counter.read(), initial);
            assert_eq!(counter.sum(), initial);
        }
        Ok(())
    }

    #[test]
    fn sum_sees_deltas_that_were_never_folded() -> Result {
        let counter = counter(0)?;

        counter.add_batch(5, NEVER_FOLD);
        counter.add_batch(-2, NEVER_FOLD);

        assert_eq!(counter.sum(), 3);
        assert_eq!(counter.read(), 0);
        Ok(())
    }

    #[test]
    fn a_delta_is_folded_when_it_reaches_the_batch() -> Result {
        // Amount, batch, count after one add. A second add may run on another CPU.
        const ROWS: [(i64, u16, i64); 8] = [
            (1, 1, 1),
            (31, 32, 0),
            (32, 32, 32),
            (33, 32, 33),
            (-31, 32, 0),
            (-32, 32, -32),
            (65534, 65535, 0),
            (65535, 65535, 65535),
        ];

        for (amount, batch, count) in ROWS {
            let counter = counter(0)?;

            counter.add_batch(amount, NonZeroU16::new(batch).ok_or(EINVAL)?);

            assert_eq!(counter.read(), count);
            assert_eq!(counter.sum(), amount);
        }
        Ok(())
    }

    #[test]
    fn sub_undoes_add() -> Result {
        let counter = counter(10)?;

        counter.add(1_000_000);
        counter.sub(1_000_000);
        counter.sub(-4);

        assert_eq!(counter.sum(), 14);
        Ok(())
    }

    #[test]
    fn approximate_reads_stay_within_the_error_bound() -> Result {
        let counter = counter(0)?;
        let batch = PerCpuCounter::default_batch();
        assert!(batch.get() >= 32);
        let bound = PerCpuCounter::error_bound(batch, kernel::cpu::nr_cpu_ids());

        for _ in 0..1000 {
            counter.add(7);
            assert!(counter.read().abs_diff(counter.sum()) <= bound);
        }

        assert_eq!(counter.sum(), 7000);
        Ok(())
    }

    #[test]
    fn error_bound_is_batch_times_cpus() {
        // Batch, CPUs, bound.
        const ROWS: [(u16, u32, u64); 5] = [
            (1, 64, 0),
            (32, 4, 124),
            (512, 256, 130_816),
            (32, 0, 0),
            (u16::MAX, u32::MAX, 65534 * 4_294_967_295),
        ];

        for (batch, cpus, bound) in ROWS {
            let batch = NonZeroU16::new(batch).unwrap_or(NonZeroU16::MIN);
            assert_eq!(PerCpuCounter::error_bound(batch, cpus), bound);
        }
    }

    #[test]
    fn positive_reads_hide_a_negative_count() -> Result {
        let counter = counter(-3)?;

        assert_eq!(counter.read(), -3);
        assert_eq!(counter.read_positive(), 0);
        assert_eq!(counter.sum_positive(), 0);

        counter.add_batch(8, ALWAYS_FOLD);

        assert_eq!(counter.read_positive(), 5);
        assert_eq!(counter.sum_positive(), 5);
        Ok(())
    }

    #[test]
    fn compare_is_exact_near_and_far() -> Result {
        // Count, right-hand side, result.
        const ROWS: [(i64, i64, Ordering); 7] = [
            (0, 0, Ordering::Equal),
            (5, 4, Ordering::Greater),
            (5, 6, Ordering::Less),
            (-1, 1, Ordering::Less),
            (1 << 40, 0, Ordering::Greater),
            (0, 1 << 40, Ordering::Less),
            (1 << 62, -(1 << 61), Ordering::Greater),
        ];

        for (count, rhs, expected) in ROWS {
            let counter = counter(count)?;

            assert_eq!(counter.compare(rhs), expected);
            assert_eq!(counter.compare_batch(rhs, ALWAYS_FOLD), expected);
            assert_eq!(counter.compare_batch(rhs, NonZeroU16::MAX), expected);
            assert_eq!(counter.compare_approx(rhs), expected);
        }
        Ok(())
    }

    #[test]
    fn compare_sees_deltas_that_were_never_folded() -> Result {
        let counter = counter(100)?;

        counter.add_batch(1, NEVER_FOLD);

        assert_eq!(counter.read(), 100);
        assert_eq!(counter.compare_batch(100, NEVER_FOLD), Ordering::Greater);
        assert_eq!(counter.compare_batch(101, NEVER_FOLD), Ordering::Equal);
        assert_eq!(counter.compare_batch(102, NEVER_FOLD), Ordering::Less);
        assert_eq!(counter.compare_approx(100), Ordering::Equal);

        // A delta of more than the default batch of all CPUs.
        counter.add_batch(60_000, NEVER_FOLD);
        assert_eq!(counter.read(), 100);
        assert_eq!(counter.compare_batch(50_000, NEVER_FOLD), Ordering::Greater);
        Ok(())
    }

    #[test]
    fn set_forgets_every_delta() -> Result {
        let mut counter = counter(1)?;
        counter.add_batch(20, NEVER_FOLD);

        counter.as_mut().set(-5);

        assert_eq!(counter.read(), -5);
        assert_eq!(counter.sum(), -5);
        Ok(())
    }

    #[test]
    fn sync_keeps_the_sum() -> Result {
        let counter = counter(0)?;
        counter.add_batch(9, NEVER_FOLD);

        counter.sync();

        assert_eq!(counter.sum(), 9);
        // The task may have migrated before the fold; then there was no delta to fold.
        assert!([0, 9].contains(&counter.read()));
        Ok(())
    }

    #[test]
    fn updates_from_many_tasks_add_up() -> Result {
        const TASKS: i64 = 8;
        const ROUNDS: i64 = 10_000;
        let counter = Arc::pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;

        run_jobs(TASKS as usize, |_| {
            let counter = counter.clone();
            Ok(move || {
                for amount in 0..ROUNDS {
                    counter.add(amount);
                    counter.sub(amount - 1);
                }
            })
        })?;

        assert_eq!(counter.sum(), TASKS * ROUNDS);
        Ok(())
    }
}
