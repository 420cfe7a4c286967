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

/// A signed counter that any CPU can update without contending for a cache line.
///
/// It wraps around at 64 bits, and so does the result of every method.
///
/// # Invariants
///
/// What a `&self` leads to is a `percpu_counter` that is initialised, for as long as the borrow
/// lasts: `counters` sees to it, or the [array](super::PerCpuCounterArray) that it is part of.
#[pin_data]
#[repr(transparent)]
pub struct PerCpuCounter {
    #[pin]
    counters: Counters<1>,
}

// SAFETY: All it has is a `percpu_counter`.
unsafe impl Kind for PerCpuCounter {}

impl PerCpuCounter {
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

    /// Returns the batch of [`add`](Self::add), [`sub`](Self::sub) and [`compare`](Self::compare).
    ///
    /// That is the larger of 32 and twice the number of online CPUs; it changes as CPUs come and
    /// go. See `compute_batch_value()` in `lib/percpu_counter.c`.
    ///
    /// Context: any.
    #[inline]
    pub fn default_batch() -> NonZeroU16 {
        // SAFETY: The helper only reads an integer, which lives as long as the kernel.
        let batch = unsafe { bindings::percpu_counter_batch_once() };

        u16::try_from(batch)
            .ok()
            .and_then(NonZeroU16::new)
            .unwrap_or(NonZeroU16::MAX)
    }

    /// Returns the largest difference between [`read`](Self::read) and [`sum`](Self::sum).
    ///
    /// It holds as long as every update used a batch of at most `batch`, and at most `cpus` CPUs
    /// made updates: each of them keeps back less than a batch. Exact if `batch` is 1.
    ///
    /// Context: any.
    pub const fn error_bound(batch: NonZeroU16, cpus: u32) -> u64 {
        // OVERFLOW: 16 and 32 bits make at most 48.
        (batch.get() as u64 - 1) * cpus as u64
    }

    /// Adds `amount`, which may be negative.
    ///
    /// An amount within a batch of [`i64::MIN`] or [`i64::MAX`] may get lost: C takes the absolute
    /// value of its sum with this CPU's delta, which wraps, and that of [`i64::MIN`] is no `i64`.
    ///
    /// Takes the counter's lock once this CPU's delta reaches
    /// [`default_batch()`](Self::default_batch), so on every call if `amount` does.
    ///
    /// Context: any but NMI. Never sleeps.
    #[inline]
    pub fn add(&self, amount: i64) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_add(self.counters.get(), amount) };
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

    /// Adds `amount`, and folds this CPU's delta into the count once it reaches `batch`.
    ///
    /// A larger batch makes updates cheaper and approximate reads worse: see
    /// [`error_bound()`](Self::error_bound). Amounts that may get lost: as of [`add`](Self::add).
    ///
    /// Context: any but NMI. Never sleeps.
    #[inline]
    pub fn add_batch(&self, amount: i64, batch: NonZeroU16) {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe {
            bindings::percpu_counter_add_batch(self.counters.get(), amount, i32::from(batch.get()))
        };
    }

    /// Returns the shared count, which lacks what CPUs have not folded yet.
    ///
    /// See [`error_bound()`](Self::error_bound) for how far it may be off.
    ///
    /// Context: any. Never sleeps.
    #[inline]
    pub fn read(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_read_once(self.counters.get()) }
    }

    /// Returns [`read`](Self::read), or 0 if that is negative.
    ///
    /// For counts that are never negative in truth, which the shared count may still be.
    ///
    /// Context: any. Never sleeps.
    #[inline]
    pub fn read_positive(&self) -> i64 {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_read_positive(self.counters.get()) }
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

    /// Compares the sum over all CPUs with `rhs`.
    ///
    /// As exact as [`sum`](Self::sum) if
    ///
    /// - every update was by [`add`](Self::add), [`sub`](Self::sub) or a smaller batch: after larger
    ///   ones take [`compare_batch`](Self::compare_batch);
    /// - no CPU goes offline meanwhile, nor has since those that are left gathered their deltas,
    ///   which lowers [`default_batch()`](Self::default_batch) below these;
    /// - the two values are less than 2^63 apart.
    ///
    /// Context: any but NMI. Never sleeps. Cheap if the count is further from `rhs` than the
    /// default batch times the online CPUs; a [`sum`](Self::sum) if it is nearer, so not for limits
    /// that a load stays close to: for those, there is [`percpu_limiter`](crate::percpu::limiter).
    #[inline]
    pub fn compare(&self, rhs: i64) -> Ordering {
        // SAFETY: The counter is initialised by the type invariants.
        unsafe { bindings::percpu_counter_compare(self.counters.get(), rhs) }.cmp(&0)
    }

    /// Compares the sum over all CPUs with `rhs`, after updates with batches up to `batch`.
    ///
    /// As [`compare`](Self::compare) otherwise.
    ///
    /// Context and cost: as [`compare`](Self::compare), with `batch` for the default.
    #[inline]
    pub fn compare_batch(&self, rhs: i64, batch: NonZeroU16) -> Ordering {
        // OVERFLOW: `__percpu_counter_compare()` in `lib/percpu_counter.c` multiplies the batch by
        // the number of CPUs in 32 bits: 16 bits times `NR_CPUS`, which is less than 16 bits.
        //
        // SAFETY: The counter is initialised by the type invariants.
        unsafe {
            bindings::__percpu_counter_compare(self.counters.get(), rhs, i32::from(batch.get()))
        }
        .cmp(&0)
    }

    /// Compares [`read`](Self::read), the approximate count, with `rhs`.
    ///
    /// Wrong if the sum over all CPUs is no further from `rhs` than the
    /// [`error_bound()`](Self::error_bound), and right otherwise.
    ///
    /// Context: any. Never sleeps.
    #[inline]
    pub fn compare_approx(&self, rhs: i64) -> Ordering {
        self.read().cmp(&rhs)
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

    /// Folds this CPU's delta into the shared count.
    ///
    /// Call it on every CPU to make [`read`](Self::read) better for a while: after the largest batch
    /// of updates became smaller, say. Otherwise deltas from before remain until the next update on
    /// their CPU.
    ///
    /// Context: any but NMI. Never sleeps.
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

    use kernel::{
        sync::{
            Arc,
            Completion, //
        },
        workqueue, //
    };

    /// A batch no test reaches, so that every delta stays with its CPU.
    const NEVER_FOLD: NonZeroU16 = NonZeroU16::MAX;

    /// The batch that folds every delta at once.
    const ALWAYS_FOLD: NonZeroU16 = NonZeroU16::MIN;

    fn counter(initial: i64) -> Result<Pin<KBox<PerCpuCounter>>> {
        KBox::try_pin_init(PerCpuCounter::new(initial), GFP_KERNEL)
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
        // Amount, batch, count after. One add, as a second one may run on another CPU.
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
    fn error_bound_is_what_all_cpus_can_keep_back() {
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
        // The task may have moved on before the fold, and then there was nothing to fold.
        assert!([0, 9].contains(&counter.read()));
        Ok(())
    }

    #[test]
    fn updates_from_many_tasks_add_up() -> Result {
        const TASKS: i64 = 8;
        const ROUNDS: i64 = 10_000;
        let counter = Arc::pin_init(PerCpuCounter::new(0), GFP_KERNEL)?;

        let mut done = KVec::new();
        for _ in 0..TASKS {
            let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
            done.push(finished.clone(), GFP_KERNEL)?;
            let counter = counter.clone();
            workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
                for amount in 0..ROUNDS {
                    counter.add(amount);
                    counter.sub(amount - 1);
                }
                finished.complete_all();
            })?;
        }
        done.iter()
            .for_each(|finished| finished.wait_for_completion());

        assert_eq!(counter.sum(), TASKS * ROUNDS);
        Ok(())
    }
}
