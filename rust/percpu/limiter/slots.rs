// SPDX-License-Identifier: GPL-2.0

//! A pool with a slot for every possible CPU.

use kernel::{
    prelude::*,
    sync::atomic::Atomic, //
};

use crate::percpu::{
    possible_cpus,
    PerCpu, //
};

use super::pool::{
    self,
    Slots, //
};

/// The slots of all possible CPUs, online or not.
pub(super) struct CpuSlots(PerCpu<Atomic<i64>>);

impl Slots for CpuSlots {
    #[inline]
    fn local(&self) -> &Atomic<i64> {
        self.0.raw_cpu()
    }

    fn for_each(&self, f: impl FnMut(&Atomic<i64>)) {
        self.0.iter().map(|(_, slot)| slot).for_each(f);
    }
}

pub(super) type Pool = pool::Pool<CpuSlots>;

/// Returns `count` in the type of pools, or [`None`] if it exceeds the largest limit.
#[inline]
pub(super) fn credits(count: u64) -> Option<i64> {
    i64::try_from(count)
        .ok()
        .filter(|&count| count <= pool::MAX_LIMIT)
}

impl Pool {
    /// Creates a pool of `limit` credits.
    ///
    /// Fails with [`EINVAL`] if `limit` is more than [`pool::MAX_LIMIT`], and with [`ENOMEM`] if
    /// there is no memory.
    pub(super) fn with_cpus(limit: u64) -> Result<Self> {
        let limit = credits(limit).ok_or(EINVAL)?;
        let slots = PerCpu::new(|_| Ok(Atomic::new(0)))?;

        Ok(Self::new(limit, CpuSlots(slots), possible_cpus().count()))
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_limiter_slots)]
mod tests {
    use super::*;

    use kernel::sync::atomic::Relaxed;

    const CPUS: usize = 40;

    /// The CPU of the caller.
    static CPU: Atomic<usize> = Atomic::new(0);

    /// The slots of more CPUs than a test machine has.
    struct ManySlots([Atomic<i64>; CPUS]);

    impl Slots for ManySlots {
        fn local(&self) -> &Atomic<i64> {
            &self.0[CPU.load(Relaxed)]
        }

        fn for_each(&self, f: impl FnMut(&Atomic<i64>)) {
            self.0.iter().for_each(f);
        }
    }

    /// All slots together have more credits than the field of the free credits has room for.
    #[test]
    fn credits_of_wrong_callers_stop_at_the_largest_limit() {
        let slots = ManySlots([const { Atomic::new(0) }; CPUS]);
        let pool = pool::Pool::new(0, slots, CPUS);
        for cpu in 0..CPUS {
            CPU.store(cpu, Relaxed);
            for _ in 0..4 {
                pool.uncharge(pool::MAX_LIMIT);
            }
        }
        assert!(pool.parked() > 1 << 47);

        // The first come from the slot of this CPU. The next collects those of all CPUs.
        let mut taken = 0;
        while pool.acquire(pool::MAX_LIMIT) {
            taken += 1;
        }
        assert!((1..=5).contains(&taken));
        assert!(!pool.acquire(1));
        assert_eq!((pool.parked(), pool.in_use()), (0, 0));
        pool.release(pool::MAX_LIMIT);
        assert_eq!(pool.in_use(), -pool::MAX_LIMIT);
    }
}
