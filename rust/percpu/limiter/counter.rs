// SPDX-License-Identifier: GPL-2.0

//! A limit whose credits are counted by the callers.

use kernel::prelude::*;

use super::{
    pool::MAX_LIMIT,
    slots::{
        credits,
        Pool, //
    }, //
};

/// A hard limit, as a number of credits.
///
/// See the [module](super) for its guarantees and its cost. The methods have the names of C's
/// `page_counter`.
///
/// A caller returns as many credits as it took. A caller that returns more raises the effective
/// limit, at most by the difference. The free credits stop at [`MAX_LIMIT`](Self::MAX_LIMIT), when
/// a request has collected those of all CPUs. There is no other effect, unless more than 30 callers
/// do this at the same time: then the count may overflow, and the counter admits nothing.
pub struct CreditCounter {
    pool: Pool,
}

impl CreditCounter {
    /// The largest limit, and the largest number of credits of one call: 2^40.
    pub const MAX_LIMIT: u64 = MAX_LIMIT.unsigned_abs();

    /// Creates a counter with `limit` credits. A limit of 0 admits nothing.
    ///
    /// Takes eight bytes per possible CPU.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`MAX_LIMIT`](Self::MAX_LIMIT), and with
    /// [`ENOMEM`] if there is no memory.
    ///
    /// Context: Process context. May sleep.
    pub fn new(limit: u64) -> Result<Self> {
        Ok(Self {
            pool: Pool::with_cpus(limit)?,
        })
    }

    /// Takes `count` credits if enough are left, and returns whether it did.
    ///
    /// A charge of 0 always succeeds. See the [module](super) for credits that concurrent calls may
    /// miss.
    ///
    /// Context: Any context. Never sleeps. Does not disable interrupts. See the [module](super) for
    /// the cost.
    #[inline]
    #[must_use = "if not, nothing was taken"]
    pub fn try_charge(&self, count: u64) -> bool {
        match credits(count) {
            None => false,
            Some(0) => true,
            Some(count) => self.pool.acquire(count),
        }
    }

    /// Takes `count` credits even if too few are left.
    ///
    /// For a charge that must not fail. While more credits than the limit are in use, nothing is
    /// admitted.
    ///
    /// Fails with [`EOVERFLOW`] if `count` is more than [`MAX_LIMIT`](Self::MAX_LIMIT), or if the
    /// limit would be exceeded by more than 2^46.
    ///
    /// Context: Any context. Never sleeps. Costs one atomic operation on the shared count.
    pub fn charge(&self, count: u64) -> Result {
        match credits(count) {
            Some(count) if count == 0 || self.pool.charge(count) => Ok(()),
            _ => Err(EOVERFLOW),
        }
    }

    /// Returns `count` credits.
    ///
    /// Does nothing if `count` credits cannot be in use: the free credits would exceed
    /// [`MAX_LIMIT`](Self::MAX_LIMIT).
    ///
    /// Context: Any context. Never sleeps. Does not disable interrupts.
    #[inline]
    pub fn uncharge(&self, count: u64) {
        if let Some(count @ 1..) = credits(count) {
            self.pool.uncharge(count);
        }
    }

    /// Changes the limit.
    ///
    /// Credits in use stay in use. While more than `limit` credits are in use, nothing is admitted.
    /// Concurrent calls of [`try_charge`](Self::try_charge) use the old or the new limit.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`MAX_LIMIT`](Self::MAX_LIMIT). Fails with
    /// [`EBUSY`] if the new limit would be exceeded by more than 2^46.
    ///
    /// Context: Any context. Never sleeps.
    pub fn set_limit(&self, limit: u64) -> Result {
        let limit = credits(limit).ok_or(EINVAL)?;

        self.pool.set_limit(limit).then_some(()).ok_or(EBUSY)
    }

    /// Returns the limit.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.pool.limit().unsigned_abs()
    }

    /// Returns the number of credits in use, or 0 if more credits were returned than taken.
    ///
    /// The number is exact if no call runs concurrently. It may exceed the limit after the limit
    /// was lowered or after [`charge`](Self::charge).
    ///
    /// Context: Any context. Never sleeps. Visits every possible CPU's cache line.
    pub fn in_use(&self) -> u64 {
        self.pool.in_use().try_into().unwrap_or(0)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_limiter)]
mod tests {
    use super::*;

    use kernel::sync::{
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    };

    use crate::{
        percpu::{
            possible_cpus,
            testing::migrate_disable, //
        },
        testing::task::run_jobs, //
    };

    const MAX: u64 = CreditCounter::MAX_LIMIT;

    /// The most by which a limit can be exceeded.
    const MOST: u64 = 1 << 46;

    #[test]
    fn charges_count_towards_the_limit() -> Result {
        let counter = CreditCounter::new(100)?;

        assert!(counter.try_charge(60));
        counter.charge(39)?;
        assert!(!counter.try_charge(2));
        assert!(counter.try_charge(1));
        assert_eq!(counter.in_use(), 100);

        counter.uncharge(100);
        assert_eq!(counter.in_use(), 0);
        assert!(counter.try_charge(100));
        Ok(())
    }

    #[test]
    fn charges_above_the_limit_admit_no_request() -> Result {
        let counter = CreditCounter::new(100)?;
        // Parks some credits.
        assert!(counter.try_charge(1));
        counter.uncharge(1);

        counter.charge(150)?;

        assert!(!counter.try_charge(1));
        assert_eq!(counter.in_use(), 150);
        counter.uncharge(50);
        assert!(!counter.try_charge(1));
        counter.uncharge(1);
        assert!(counter.try_charge(1));
        assert!(!counter.try_charge(1));
        Ok(())
    }

    #[test]
    fn charges_have_bounds() -> Result {
        let counter = CreditCounter::new(0)?;

        assert_eq!(counter.charge(MAX + 1), Err(EOVERFLOW));
        assert_eq!(counter.charge(u64::MAX), Err(EOVERFLOW));
        assert_eq!(counter.in_use(), 0);
        for _ in 0..MOST / MAX {
            counter.charge(MAX)?;
        }
        assert_eq!(counter.charge(1), Err(EOVERFLOW));
        assert_eq!(counter.in_use(), MOST);

        for _ in 0..MOST / MAX {
            assert!(!counter.try_charge(1));
            counter.uncharge(MAX);
        }
        assert_eq!(counter.in_use(), 0);
        Ok(())
    }

    #[test]
    fn limit_has_a_maximum_distance_to_the_charges() -> Result {
        let counter = CreditCounter::new(MAX)?;
        for _ in 0..MOST / MAX {
            counter.charge(MAX)?;
        }

        counter.set_limit(1)?;
        counter.charge(1)?;
        assert_eq!(counter.set_limit(0), Err(EBUSY));

        assert_eq!(counter.limit(), 1);
        assert_eq!(counter.in_use(), MOST + 1);
        Ok(())
    }

    #[test]
    fn excess_uncharge_stays_in_range() -> Result {
        let counter = CreditCounter::new(10)?;

        counter.uncharge(5);
        assert_eq!(counter.in_use(), 0);
        assert!(counter.try_charge(15));
        assert!(!counter.try_charge(1));
        for count in [15, MAX, MAX, MAX + 1, u64::MAX, 0] {
            counter.uncharge(count);
        }

        assert_eq!(counter.in_use(), 0);
        assert!(!counter.try_charge(MAX + 1));
        assert!(counter.try_charge(15));
        Ok(())
    }

    #[test]
    fn charge_of_zero_always_succeeds() -> Result {
        let counter = CreditCounter::new(0)?;
        counter.charge(1)?;

        assert!(counter.try_charge(0));
        counter.charge(0)?;
        counter.uncharge(0);

        assert_eq!(counter.in_use(), 1);
        Ok(())
    }

    /// Takes single credits until a refusal, and returns how many.
    fn saturate(counter: &CreditCounter) -> u64 {
        let mut taken = 0;

        while counter.try_charge(1) {
            taken += 1;
        }
        taken
    }

    #[test]
    fn limit_bounds_admitted_credits() -> Result {
        for limit in [0, 1, 7, 64, 1000] {
            let counter = CreditCounter::new(limit)?;

            assert_eq!(saturate(&counter), limit);
            assert_eq!(counter.in_use(), limit);

            counter.uncharge(limit);
            assert_eq!(counter.in_use(), 0);
            assert!(!counter.try_charge(limit + 1));
            assert!(counter.try_charge(limit));
        }
        Ok(())
    }

    #[test]
    fn requests_are_admitted_whole_or_not_at_all() -> Result {
        let counter = CreditCounter::new(100)?;

        assert!(counter.try_charge(98));
        assert!(!counter.try_charge(3));
        assert_eq!(counter.in_use(), 98);
        assert!(counter.try_charge(2));
        assert!(!counter.try_charge(1));

        counter.uncharge(100);
        assert_eq!(counter.in_use(), 0);
        Ok(())
    }

    #[test]
    fn sizes_of_requests_have_bounds() -> Result {
        // Limit, request, whether it is admitted.
        const ROWS: [(u64, u64, bool); 8] = [
            (0, 0, true),
            (0, 1, false),
            (1, 0, true),
            (1, u64::MAX, false),
            (MAX, 1, true),
            (MAX, MAX, true),
            (MAX, MAX + 1, false),
            (MAX, u64::MAX, false),
        ];

        for (limit, count, admitted) in ROWS {
            let counter = CreditCounter::new(limit)?;

            // Twice: the second request runs after a possible refusal.
            for _ in 0..2 {
                assert_eq!(counter.try_charge(count), admitted);
                if admitted {
                    counter.uncharge(count);
                }
            }
            assert_eq!(counter.in_use(), 0);
        }
        Ok(())
    }

    #[test]
    fn limits_have_bounds() -> Result {
        let counter = CreditCounter::new(MAX)?;

        for limit in [MAX + 1, u64::MAX] {
            assert_eq!(CreditCounter::new(limit).err(), Some(EINVAL));
            assert_eq!(counter.set_limit(limit), Err(EINVAL));
            assert_eq!(counter.limit(), MAX);
        }
        Ok(())
    }

    #[test]
    fn lower_limit_admits_after_enough_releases() -> Result {
        let counter = CreditCounter::new(100)?;
        assert!(counter.try_charge(60));
        // Parks some credits.
        assert!(counter.try_charge(1));
        counter.uncharge(1);

        counter.set_limit(50)?;

        assert_eq!(counter.limit(), 50);
        assert_eq!(counter.in_use(), 60);
        assert!(!counter.try_charge(1));
        counter.uncharge(10);
        assert!(!counter.try_charge(1));
        counter.uncharge(1);
        assert!(!counter.try_charge(2));
        assert!(counter.try_charge(1));
        counter.uncharge(1);

        counter.set_limit(0)?;
        counter.uncharge(49);
        assert!(!counter.try_charge(1));
        counter.set_limit(5)?;
        assert_eq!(saturate(&counter), 5);
        Ok(())
    }

    #[test]
    fn failed_charge_closes_all_slots() -> Result {
        let counter = CreditCounter::new(1000)?;
        assert!(counter.try_charge(1));
        counter.uncharge(1);
        assert!(counter.pool.open() > 0);

        assert!(!counter.try_charge(1001));

        assert_eq!(counter.pool.open(), 0);
        assert!(counter.try_charge(1000));
        Ok(())
    }

    /// The number of credits that all CPUs share.
    fn shared(counter: &CreditCounter) -> u64 {
        counter.limit() - counter.in_use() - counter.pool.parked().unsigned_abs()
    }

    /// Calls `f` as often as told, and returns how often that changed the shared count.
    fn changes(counter: &CreditCounter, calls: u64, f: impl Fn()) -> u64 {
        let mut changes = 0;

        for _ in 0..calls {
            let before = shared(counter);
            f();
            changes += u64::from(shared(counter) != before);
        }
        changes
    }

    #[test]
    fn far_from_the_limit_a_cpu_uses_its_slot() -> Result {
        const CALLS: u64 = 640;
        let counter = CreditCounter::new(MAX)?;
        let here = migrate_disable();

        let taken = changes(&counter, CALLS, || assert!(counter.try_charge(1)));
        let returned = changes(&counter, CALLS, || counter.uncharge(1));
        let both = changes(&counter, CALLS, || {
            assert!(counter.try_charge(1));
            counter.uncharge(1);
        });
        drop(here);

        // About one call in 32, or fewer.
        assert!((1..=CALLS / 32 + 1).contains(&taken));
        assert!((1..=CALLS / 32 + 1).contains(&returned));
        assert!(both <= 1);
        assert_eq!(counter.in_use(), 0);
        Ok(())
    }

    /// The number of requests that a refill provides for.
    fn refill_requests() -> u64 {
        // CAST: To 64 bits.
        (2 * possible_cpus().count() as u64).max(32)
    }

    #[test]
    fn a_slot_has_credits_for_two_refills_at_most() -> Result {
        let refill = refill_requests();
        for count in [1, 3, 1000] {
            let counter = CreditCounter::new(MAX)?;
            let here = migrate_disable();
            counter.charge(4 * refill * count)?;

            let mut most = 0;
            for _ in 0..4 * refill {
                counter.uncharge(count);
                most = most.max(counter.pool.parked().unsigned_abs());
            }
            drop(here);
            assert!((refill * count..=2 * refill * count).contains(&most));
        }
        Ok(())
    }

    #[test]
    fn all_cpus_park_half_of_the_free_credits_at_most() -> Result {
        let cpus = possible_cpus().count() as u64;
        for limit in [16 * cpus, 31 * cpus] {
            let counter = CreditCounter::new(limit)?;
            let here = migrate_disable();
            assert!(counter.try_charge(1));
            let parked = counter.pool.parked().unsigned_abs();
            drop(here);

            assert!((1..=limit / 2 / cpus).contains(&parked));
        }
        Ok(())
    }

    #[test]
    fn credits_that_a_release_parks_are_found() -> Result {
        let counter = CreditCounter::new(1 << 20)?;
        counter.charge(1 << 19)?;
        let here = migrate_disable();
        counter.uncharge(1);
        drop(here);
        assert_eq!((counter.pool.open(), counter.pool.parked()), (1, 1));

        assert!(!counter.try_charge((1 << 19) + 2));
        counter.uncharge(1);
        assert!(counter.try_charge((1 << 19) + 2));
        assert_eq!(counter.in_use(), counter.limit());
        Ok(())
    }

    #[test]
    fn near_the_limit_a_cpu_uses_its_slot() -> Result {
        const LIMIT: u64 = 1000;

        for count in 1..=4 {
            let counter = CreditCounter::new(LIMIT)?;
            counter.charge(LIMIT - count)?;
            let here = migrate_disable();
            // Opens the slot.
            assert!(counter.try_charge(1));
            counter.uncharge(1);

            for _ in 0..100 {
                let before = counter.pool.parked();
                for _ in 0..count {
                    assert!(counter.try_charge(1));
                }
                assert_eq!(counter.pool.parked(), 0);
                for _ in 0..count {
                    counter.uncharge(1);
                }
                assert!(before <= counter.pool.parked());
            }
            // CAST: At most 4.
            assert_eq!(counter.pool.parked(), count as i64);
            assert_eq!(shared(&counter), 0);
            drop(here);
        }
        Ok(())
    }

    #[test]
    fn near_the_limit_a_slot_keeps_the_credits_of_four_requests() -> Result {
        for count in [1, 3, 1000] {
            let counter = CreditCounter::new(16 * count)?;
            counter.charge(16 * count)?;
            let here = migrate_disable();

            let mut most = 0;
            for _ in 0..8 {
                counter.uncharge(count);
                most = most.max(counter.pool.parked().unsigned_abs());
            }
            drop(here);
            assert_eq!(most, 4 * count);
        }
        Ok(())
    }

    #[test]
    fn above_the_limit_a_slot_is_closed() -> Result {
        let counter = CreditCounter::new(MAX)?;
        let here = migrate_disable();
        assert!(counter.try_charge(1));
        counter.uncharge(1);
        assert_eq!(counter.pool.open(), 1);

        counter.charge(MAX)?;
        counter.uncharge(1);
        drop(here);

        assert_eq!((counter.pool.open(), counter.pool.parked()), (0, 0));
        assert_eq!(counter.in_use(), MAX - 1);
        Ok(())
    }

    #[test]
    fn after_a_refusal_slots_stay_closed_for_some_requests() -> Result {
        const LIMIT: u64 = 1000;
        let cpus = possible_cpus().count();
        let counter = CreditCounter::new(LIMIT)?;
        counter.charge(LIMIT - 1)?;
        let here = migrate_disable();
        assert!(counter.try_charge(1));
        counter.uncharge(1);
        assert_eq!(counter.pool.open(), 1);

        assert!(!counter.try_charge(2));
        let mut pairs = 0;
        while counter.pool.open() == 0 && pairs < 100 * cpus {
            assert!(counter.try_charge(1));
            counter.uncharge(1);
            pairs += 1;
        }
        drop(here);

        // Four requests of each CPU: two pairs.
        assert!((2 * cpus..=2 * cpus + 1).contains(&pairs));
        Ok(())
    }

    #[test]
    fn concurrent_tasks_stay_within_the_limit() -> Result {
        const TASKS: u64 = 8;
        const ROUNDS: u64 = 5000;
        let counter = Arc::new(CreditCounter::new(3 * TASKS)?, GFP_KERNEL)?;
        // The number of credits in use, and whether it ever exceeded the limit.
        let used = Arc::new((Atomic::new(0_u64), Atomic::new(false)), GFP_KERNEL)?;

        run_jobs(TASKS as usize, |task| {
            let (counter, used) = (counter.clone(), used.clone());
            Ok(move || {
                for round in 0..ROUNDS {
                    let count = 1 + (task as u64 + round) % 5;
                    if counter.try_charge(count) {
                        if used.0.fetch_add(count, Full) + count > 3 * TASKS {
                            used.1.store(true, Relaxed);
                        }
                        if counter.try_charge(1) {
                            counter.uncharge(1);
                        }
                        used.0.fetch_sub(count, Full);
                        counter.uncharge(count);
                    }
                }
            })
        })?;

        assert!(!used.1.load(Relaxed));
        assert_eq!(counter.in_use(), 0);
        assert!(!counter.try_charge(3 * TASKS + 1));
        assert!(counter.try_charge(3 * TASKS));
        Ok(())
    }
}
