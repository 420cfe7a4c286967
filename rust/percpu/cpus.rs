// SPDX-License-Identifier: GPL-2.0

//! The CPUs that per-CPU data has slots for.

use kernel::cpu::{
    nr_cpu_ids,
    CpuId, //
};

use core::iter::FusedIterator;

use crate::bindings;

/// Returns the possible CPUs, in ascending order.
///
/// Those are all that may ever come online, a set that does not change after boot. Numbers may be
/// missing in between.
///
/// Context: any. C: `for_each_possible_cpu()` in `include/linux/cpumask.h`.
#[inline]
pub fn possible_cpus() -> PossibleCpus {
    // INVARIANT: `last` is -1.
    PossibleCpus { last: -1 }
}

/// The iterator of [`possible_cpus()`].
///
/// # Invariants
///
/// `last` is -1 or the number of a possible CPU.
#[derive(Clone)]
pub struct PossibleCpus {
    last: i32,
}

impl Iterator for PossibleCpus {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        // SAFETY: `last` is fit for `cpumask_next()`, by the type invariants.
        let next = unsafe { bindings::cpumask_next_possible(self.last) };
        // C returns a number that no CPU has at the end.
        if next >= nr_cpu_ids() {
            return None;
        }
        // INVARIANT: `cpumask_next()` returned it, and it is a CPU's.
        // CAST: There are not that many CPUs.
        self.last = next as i32;
        // SAFETY: Just compared.
        Some(unsafe { CpuId::from_u32_unchecked(next) })
    }
}

impl FusedIterator for PossibleCpus {}

/// Tells whether a CPU may ever come online, so that per-CPU data has a slot for it.
#[inline]
pub(super) fn is_possible(cpu: CpuId) -> bool {
    // SAFETY: The number is less than `nr_cpu_ids`, by the invariants of `CpuId`.
    unsafe { bindings::cpu_possible(cpu.as_u32()) }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_percpu_cpus)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    #[test]
    fn possible_cpus_are_those_that_say_so() -> Result {
        let mut left = possible_cpus();

        for cpu in (0..nr_cpu_ids()).filter_map(CpuId::from_u32) {
            if is_possible(cpu) {
                assert!(left.next() == Some(cpu));
            }
        }

        assert!(left.next().is_none());
        assert!(left.next().is_none());
        Ok(())
    }

    #[test]
    fn the_last_possible_cpu_has_the_largest_number() {
        // `setup_nr_cpu_ids()` in `kernel/smp.c`.
        let last = possible_cpus().last().map(|cpu| cpu.as_u32() + 1);

        assert_eq!(last, Some(nr_cpu_ids()));
    }

    #[test]
    fn the_current_cpu_is_possible() {
        assert!(is_possible(CpuId::current()));
    }
}
