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
