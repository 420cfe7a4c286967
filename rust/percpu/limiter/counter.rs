// SPDX-License-Identifier: GPL-2.0

//! Credits that are only counted.

use kernel::prelude::*;

use super::{
    pool::MAX_LIMIT,
    slots::{
        credits,
        Pool, //
    },
};

/// A hard limit for those who keep count of their credits themselves.
///
/// As [`CreditLimiter`](super::CreditLimiter), but there is nothing that proves that credits are in
/// use: for memory that goes through C, say, and whose pages say nothing of where they were charged.
/// The methods are named as those of C's `page_counter`.
///
/// Who gives back more than were taken has more admitted than the limit, by as much; the count stops
/// at [`MAX_LIMIT`](Self::MAX_LIMIT) free credits, and nothing else happens.
pub struct CreditCounter {
    pool: Pool,
}

impl CreditCounter {
    /// The largest limit, and the most credits that one call takes or gives back: 2^40.
    pub const MAX_LIMIT: u64 = MAX_LIMIT.unsigned_abs();

    /// Creates a counter with `limit` credits.
    ///
    /// Takes eight bytes for every possible CPU.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`MAX_LIMIT`](Self::MAX_LIMIT), and with
    /// [`ENOMEM`] if memory is short.
    ///
    /// Context: process. May sleep.
    pub fn new(limit: u64) -> Result<Self> {
        Ok(Self {
            pool: Pool::with_cpus(limit)?,
        })
    }

    /// Takes `count` credits if there are as many, and returns whether.
    ///
    /// 0 credits there always are. See the [module](super) for what calls may miss that run at once.
    ///
    /// Context: any. Never sleeps, nor turns interrupts off. See the [module](super) for the cost.
    #[inline]
    #[must_use = "if not, nothing was taken"]
    pub fn try_charge(&self, count: u64) -> bool {
        match credits(count) {
            None => false,
            Some(0) => true,
            Some(count) => self.pool.acquire(count),
        }
    }

    /// Takes `count` credits whatever the limit.
    ///
    /// For what must not fail. If more are in use than the limit, nothing is admitted until enough
    /// came back.
    ///
    /// Fails with [`EOVERFLOW`] if `count` is more than [`MAX_LIMIT`](Self::MAX_LIMIT), or if the
    /// limit would be exceeded by more than 2^46.
    ///
    /// Context: any. Never sleeps. One atomic operation on what all CPUs share.
    pub fn charge(&self, count: u64) -> Result {
        match credits(count) {
            Some(count) if count == 0 || self.pool.charge(count) => Ok(()),
            _ => Err(EOVERFLOW),
        }
    }

    /// Gives back `count` credits.
    ///
    /// Does nothing if that many cannot be in use, as they are more than
    /// [`MAX_LIMIT`](Self::MAX_LIMIT) together with those that are free.
    ///
    /// Context: any. Never sleeps, nor turns interrupts off.
    #[inline]
    pub fn uncharge(&self, count: u64) {
        if let Some(count @ 1..) = credits(count) {
            self.pool.uncharge(count);
        }
    }

    /// Changes the limit.
    ///
    /// As [`CreditLimiter::set_limit`](super::CreditLimiter::set_limit); also fails with [`EBUSY`]
    /// if the new limit would be exceeded by more than 2^46.
    ///
    /// Context: any. Never sleeps.
    pub fn set_limit(&self, limit: u64) -> Result {
        let limit = credits(limit).ok_or(EINVAL)?;

        self.pool.set_limit(limit).then_some(()).ok_or(EBUSY)
    }

    /// Returns the limit.
    ///
    /// Context: any.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.pool.limit().unsigned_abs()
    }

    /// Returns how many credits are in use, or 0 if more were given back than taken.
    ///
    /// Exact if no call runs meanwhile. More than the limit after that has been lowered, or after
    /// [`charge`](Self::charge).
    ///
    /// Context: any. Never sleeps. Visits every possible CPU's cache line.
    pub fn in_use(&self) -> u64 {
        self.pool.in_use().try_into().unwrap_or(0)
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_limiter_counter)]
mod tests {
    use super::*;

    const MAX: u64 = CreditCounter::MAX_LIMIT;

    /// How far a limit can be exceeded.
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
    fn what_is_charged_above_the_limit_admits_nothing() -> Result {
        let counter = CreditCounter::new(100)?;
        // Parks some.
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
    fn limit_cannot_fall_too_far_below_what_is_charged() -> Result {
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
    fn giving_back_too_much_stays_in_range() -> Result {
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
    fn no_credits_are_always_there() -> Result {
        let counter = CreditCounter::new(0)?;
        counter.charge(1)?;

        assert!(counter.try_charge(0));
        counter.charge(0)?;
        counter.uncharge(0);

        assert_eq!(counter.in_use(), 1);
        Ok(())
    }
}
