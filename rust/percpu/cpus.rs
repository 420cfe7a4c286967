// SPDX-License-Identifier: GPL-2.0

//! The CPUs that have slots in per-CPU data.

use kernel::cpu::CpuId;

use core::iter::FusedIterator;

use crate::bindings;

/// Returns the possible CPUs, in ascending order.
///
/// Possible CPUs are all CPUs that may ever come online. The set does not change after boot. The
/// numbers may have gaps.
///
/// Context: Any context. Never sleeps. C: `for_each_possible_cpu()` in `include/linux/cpumask.h`.
#[inline]
pub fn possible_cpus() -> PossibleCpus {
    PossibleCpus { from: 0 }
}

/// The iterator of [`possible_cpus()`].
#[derive(Clone)]
pub struct PossibleCpus {
    /// The lowest number that has not been checked.
    from: u32,
}

impl Iterator for PossibleCpus {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        // SAFETY: `find_next_bit()` in `include/linux/find.h` accepts any start.
        let cpu = unsafe { bindings::find_possible_cpu(self.from) };
        // SAFETY: The helper returns a constant, or reads an integer that lives as long as the
        // kernel.
        if cpu >= unsafe { bindings::small_cpumask_bits() } {
            return None;
        }
        // OVERFLOW: `cpu` is less than another `u32`.
        self.from = cpu + 1;
        // SAFETY: The bit of `cpu` is set in the mask of possible CPUs. `nr_cpu_ids` is larger than
        // the numbers of all possible CPUs, see `setup_nr_cpu_ids()` in `kernel/smp.c`.
        Some(unsafe { CpuId::from_u32_unchecked(cpu) })
    }
}

impl FusedIterator for PossibleCpus {}

/// Returns whether a CPU is possible, and so has a slot in per-CPU data.
#[inline]
pub(super) fn is_possible(cpu: CpuId) -> bool {
    // SAFETY: By the invariants of `CpuId` the number is less than `nr_cpu_ids`.
    unsafe { bindings::cpu_possible(cpu.as_u32()) }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(kscale_percpu_cpus)]
mod tests {
    use super::*;

    use kernel::{
        cpu::nr_cpu_ids,
        prelude::*, //
    };

    #[test]
    fn iterator_matches_is_possible() -> Result {
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
