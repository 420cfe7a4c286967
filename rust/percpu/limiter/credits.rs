// SPDX-License-Identifier: GPL-2.0

//! A credit limiter whose credits are values.

use kernel::prelude::*;

use core::{
    mem,
    ptr, //
};

use super::{
    pool::MAX_LIMIT,
    slots::{
        credits,
        Pool, //
    }, //
};

/// A hard limit, as a number of credits.
///
/// See the [module](super) for its guarantees and its cost.
///
/// # Invariants
///
/// The credits of `pool` in use are those of all [`Credits`] of it, including leaked ones.
pub struct CreditLimiter {
    pool: Pool,
}

impl CreditLimiter {
    /// The largest limit: 2^40.
    pub const MAX_LIMIT: u64 = MAX_LIMIT.unsigned_abs();

    /// Creates a limiter with `limit` credits. A limit of 0 admits nothing.
    ///
    /// Takes eight bytes per possible CPU.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`MAX_LIMIT`](Self::MAX_LIMIT), and with
    /// [`ENOMEM`] if there is no memory.
    ///
    /// Context: Process context. May sleep.
    pub fn new(limit: u64) -> Result<Self> {
        Ok(Self {
            // INVARIANT: No credit is in use.
            pool: Pool::with_cpus(limit)?,
        })
    }

    /// Takes `count` credits, or returns [`None`] if too few are left.
    ///
    /// A request of 0 always succeeds. See the [module](super) for credits that concurrent calls
    /// may miss.
    ///
    /// Context: Any context. Never sleeps. Does not disable interrupts. See the [module](super) for
    /// the cost.
    #[inline]
    pub fn acquire(&self, count: u64) -> Option<Credits<'_>> {
        let wanted = credits(count)?;

        if wanted != 0 && !self.pool.acquire(wanted) {
            return None;
        }
        // INVARIANT: The credits were just taken.
        Some(Credits {
            limiter: self,
            count,
        })
    }

    /// Changes the limit.
    ///
    /// Credits in use stay in use. While more than `limit` credits are in use, nothing is admitted.
    /// Concurrent calls of [`acquire`](Self::acquire) use the old or the new limit.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`MAX_LIMIT`](Self::MAX_LIMIT). Fails with
    /// [`EBUSY`] if more than fifty concurrent calls lower a limit of that size.
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

    /// Returns the number of credits in use.
    ///
    /// The number is exact if no call runs concurrently. It may exceed the limit after the limit
    /// was lowered.
    ///
    /// Context: Any context. Never sleeps. Visits every possible CPU's cache line.
    pub fn in_use(&self) -> u64 {
        self.pool.in_use().try_into().unwrap_or(0)
    }
}

/// Credits of a [`CreditLimiter`]; dropping them returns them.
///
/// Leaked credits stay in use for ever.
///
/// # Invariants
///
/// `count` credits of `limiter` are in use for this value.
#[must_use = "the credits go back at once"]
pub struct Credits<'a> {
    limiter: &'a CreditLimiter,
    count: u64,
}

impl<'a> Credits<'a> {
    /// Returns the number of credits.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Splits off `count` credits.
    ///
    /// Returns [`None`] if this value has fewer credits.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn split(&mut self, count: u64) -> Option<Self> {
        // INVARIANT: The credits of the new value are subtracted from `self`.
        self.count = self.count.checked_sub(count)?;
        Some(Self {
            limiter: self.limiter,
            count,
        })
    }

    /// Adds the credits of `other` to this value.
    ///
    /// Returns `other` as an error if it is of another limiter.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn merge(&mut self, other: Self) -> Result<(), Self> {
        if !ptr::eq(self.limiter, other.limiter) {
            return Err(other);
        }
        // INVARIANT: `other` is forgotten, so it does not return the credits that `self` has now.
        //
        // OVERFLOW: The sum is at most the credits in use, which are at most
        // `CreditLimiter::MAX_LIMIT`.
        self.count += other.count;
        mem::forget(other);
        Ok(())
    }
}

impl Drop for Credits<'_> {
    #[inline]
    fn drop(&mut self) {
        // CAST: `count` is at most the credits in use, which are at most
        // `CreditLimiter::MAX_LIMIT`.
        let count = self.count as i64;

        if count != 0 {
            // INVARIANT: The credits are in use for `self`, which is dropped here.
            self.limiter.pool.release(count);
        }
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_limiter)]
mod tests {
    use super::*;

    use kernel::{
        sync::{
            atomic::{
                Atomic,
                Full,
                Relaxed, //
            },
            Arc,
            Completion, //
        },
        workqueue, //
    };

    /// Takes single credits until a refusal.
    fn saturate(limiter: &CreditLimiter) -> Result<KVec<Credits<'_>>> {
        let mut taken = KVec::new();

        while let Some(credits) = limiter.acquire(1) {
            taken.push(credits, GFP_KERNEL)?;
        }
        Ok(taken)
    }

    #[test]
    fn limit_bounds_admitted_credits() -> Result {
        for limit in [0, 1, 7, 64, 1000] {
            let limiter = CreditLimiter::new(limit)?;

            let taken = saturate(&limiter)?;
            assert_eq!(taken.len() as u64, limit);
            assert_eq!(limiter.in_use(), limit);

            drop(taken);
            assert_eq!(limiter.in_use(), 0);
            assert!(limiter.acquire(limit + 1).is_none());
            assert_eq!(limiter.acquire(limit).map(|all| all.count()), Some(limit));
        }
        Ok(())
    }

    #[test]
    fn requests_are_admitted_whole_or_not_at_all() -> Result {
        let limiter = CreditLimiter::new(100)?;

        let most = limiter.acquire(98).ok_or(EAGAIN)?;
        assert!(limiter.acquire(3).is_none());
        assert_eq!(limiter.in_use(), 98);
        let rest = limiter.acquire(2).ok_or(EAGAIN)?;
        assert!(limiter.acquire(1).is_none());

        drop((most, rest));
        assert_eq!(limiter.in_use(), 0);
        Ok(())
    }

    #[test]
    fn sizes_of_requests_have_bounds() -> Result {
        const MAX: u64 = CreditLimiter::MAX_LIMIT;
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
            let limiter = CreditLimiter::new(limit)?;

            // Twice: the second request runs after a possible refusal.
            for _ in 0..2 {
                assert_eq!(limiter.acquire(count).is_some(), admitted);
            }
            assert_eq!(limiter.in_use(), 0);
        }
        Ok(())
    }

    #[test]
    fn limits_have_bounds() -> Result {
        const MAX: u64 = CreditLimiter::MAX_LIMIT;
        let limiter = CreditLimiter::new(MAX)?;

        for limit in [MAX + 1, u64::MAX] {
            assert_eq!(CreditLimiter::new(limit).err(), Some(EINVAL));
            assert_eq!(limiter.set_limit(limit), Err(EINVAL));
            assert_eq!(limiter.limit(), MAX);
        }
        Ok(())
    }

    #[test]
    fn lower_limit_admits_after_enough_releases() -> Result {
        let limiter = CreditLimiter::new(100)?;
        let mut taken = limiter.acquire(60).ok_or(EAGAIN)?;
        // Parks some credits.
        drop(limiter.acquire(1));

        limiter.set_limit(50)?;

        assert_eq!(limiter.limit(), 50);
        assert_eq!(limiter.in_use(), 60);
        assert!(limiter.acquire(1).is_none());
        drop(taken.split(10));
        assert!(limiter.acquire(1).is_none());
        drop(taken.split(1));
        assert!(limiter.acquire(2).is_none());
        assert!(limiter.acquire(1).is_some());

        limiter.set_limit(0)?;
        drop(taken);
        assert!(limiter.acquire(1).is_none());
        limiter.set_limit(5)?;
        assert_eq!(saturate(&limiter)?.len(), 5);
        Ok(())
    }

    #[test]
    fn credits_are_split_and_merged() -> Result {
        let limiter = CreditLimiter::new(10)?;
        let mut credits = limiter.acquire(8).ok_or(EAGAIN)?;

        assert!(credits.split(9).is_none());
        let part = credits.split(3).ok_or(EAGAIN)?;
        assert_eq!((credits.count(), part.count()), (5, 3));
        let none = credits.split(0).ok_or(EAGAIN)?;
        drop(none);
        assert_eq!(limiter.in_use(), 8);

        assert!(credits.merge(part).is_ok());
        assert_eq!(credits.count(), 8);
        drop(credits.split(8));
        assert_eq!((credits.count(), limiter.in_use()), (0, 0));
        Ok(())
    }

    #[test]
    fn merge_rejects_credits_of_another_limiter() -> Result {
        let (one, other) = (CreditLimiter::new(10)?, CreditLimiter::new(10)?);
        let mut credits = one.acquire(1).ok_or(EAGAIN)?;
        let others = other.acquire(2).ok_or(EAGAIN)?;

        let others = credits.merge(others).err().ok_or(EINVAL)?;

        assert_eq!((credits.count(), others.count()), (1, 2));
        drop((credits, others));
        assert_eq!((one.in_use(), other.in_use()), (0, 0));
        Ok(())
    }

    #[test]
    fn leaked_credits_stay_in_use() -> Result {
        let limiter = CreditLimiter::new(10)?;

        mem::forget(limiter.acquire(4));

        assert_eq!(limiter.in_use(), 4);
        assert_eq!(saturate(&limiter)?.len(), 6);
        Ok(())
    }

    #[test]
    fn failed_acquire_closes_all_slots() -> Result {
        let limiter = CreditLimiter::new(1000)?;
        drop(limiter.acquire(1));
        assert!(limiter.pool.open() > 0);

        assert!(limiter.acquire(1001).is_none());

        assert_eq!(limiter.pool.open(), 0);
        assert!(limiter.acquire(1000).is_some());
        Ok(())
    }

    #[test]
    fn concurrent_tasks_stay_within_the_limit() -> Result {
        const TASKS: u64 = 8;
        const ROUNDS: u64 = 5000;
        let limiter = Arc::new(CreditLimiter::new(3 * TASKS)?, GFP_KERNEL)?;
        // The number of credits in use, and whether it ever exceeded the limit.
        let used = Arc::new((Atomic::new(0_u64), Atomic::new(false)), GFP_KERNEL)?;

        let mut done = KVec::new();
        for task in 0..TASKS {
            let finished = Arc::pin_init(Completion::new(), GFP_KERNEL)?;
            done.push(finished.clone(), GFP_KERNEL)?;
            let (limiter, used) = (limiter.clone(), used.clone());
            workqueue::system_unbound().try_spawn(GFP_KERNEL, move || {
                for round in 0..ROUNDS {
                    if let Some(credits) = limiter.acquire(1 + (task + round) % 5) {
                        let count = credits.count();
                        if used.0.fetch_add(count, Full) + count > 3 * TASKS {
                            used.1.store(true, Relaxed);
                        }
                        drop(limiter.acquire(1));
                        used.0.fetch_sub(count, Full);
                    }
                }
                finished.complete_all();
            })?;
        }
        done.iter()
            .for_each(|finished| finished.wait_for_completion());

        assert!(!used.1.load(Relaxed));
        assert_eq!(limiter.in_use(), 0);
        assert!(limiter.acquire(3 * TASKS + 1).is_none());
        assert!(limiter.acquire(3 * TASKS).is_some());
        Ok(())
    }
}
