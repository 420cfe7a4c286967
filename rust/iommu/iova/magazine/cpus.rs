// SPDX-License-Identifier: GPL-2.0

//! The CPUs that have magazines, real and virtual, and their locks.

use kernel::{
    cpu::{
        nr_cpu_ids,
        CpuId, //
    },
    new_spinlock_irq,
    num::casts::IntoSafeCast,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLockIrq, //
    }, //
};

use crate::{
    bindings,
    percpu::PerCpu, //
};

use super::{
    cpu_rcache::CpuRcache,
    rcache::{
        CpuRcaches,
        Guarded, //
    }, //
};

/// A lock that can be moved, as it is in memory of its own.
pub(super) type BoxedLock<T> = Pin<KBox<SpinLockIrq<T>>>;

impl<T: Unpin> Guarded for SpinLockIrq<T> {
    type Value = T;

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }
}

impl<T: Unpin> Guarded for BoxedLock<T> {
    type Value = T;

    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.lock())
    }
}

/// The CPUs of the machine.
pub(super) struct PossibleCpus(PerCpu<SpinLockIrq<CpuRcache>>);

impl PossibleCpus {
    pub(super) fn new() -> Result<Self> {
        let slot = |_| new_spinlock_irq!(CpuRcache::new(), "iova::magazine::CpuRcache");
        Ok(Self(PerCpu::pin_init(slot)?))
    }
}

impl CpuRcaches for PossibleCpus {
    type Lock = SpinLockIrq<CpuRcache>;

    #[inline]
    fn current(&self) -> &Self::Lock {
        self.0.raw_cpu()
    }

    fn slot(&self, cpu: usize) -> Option<&Self::Lock> {
        let cpu = CpuId::from_u32(u32::try_from(cpu).ok()?)?;
        self.0.per_cpu(cpu)
    }

    fn cpus(&self) -> usize {
        nr_cpu_ids().into_safe_cast()
    }

    fn online(&self) -> usize {
        // SAFETY: It only reads a number.
        unsafe { bindings::num_online_cpus() }.into_safe_cast()
    }
}

/// Virtual CPUs. The caller chooses the current one.
pub(super) struct VirtualCpus {
    first: BoxedLock<CpuRcache>,
    others: KVec<BoxedLock<CpuRcache>>,
    current: Arc<Atomic<usize>>,
}

impl VirtualCpus {
    /// Creates `cpus` CPUs, at least one. `current` holds the number of the current CPU.
    pub(super) fn new(cpus: usize, current: Arc<Atomic<usize>>) -> Result<Self> {
        let slot = || -> Result<BoxedLock<CpuRcache>> {
            let slot = new_spinlock_irq!(CpuRcache::new(), "iova::magazine::CpuRcache (virtual)");
            KBox::pin_init(slot, GFP_KERNEL)
        };
        let mut others = KVec::with_capacity(cpus.saturating_sub(1), GFP_KERNEL)?;
        for _ in 1..cpus {
            others.push(slot()?, GFP_KERNEL)?;
        }
        Ok(Self {
            first: slot()?,
            others,
            current,
        })
    }
}

impl CpuRcaches for VirtualCpus {
    type Lock = BoxedLock<CpuRcache>;

    #[inline]
    fn current(&self) -> &Self::Lock {
        self.slot(self.current.load(Relaxed)).unwrap_or(&self.first)
    }

    #[inline]
    fn slot(&self, cpu: usize) -> Option<&Self::Lock> {
        match cpu.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.others.get(index),
        }
    }

    fn cpus(&self) -> usize {
        self.others.len() + 1
    }
}
