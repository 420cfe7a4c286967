// SPDX-License-Identifier: GPL-2.0

//! The CPUs that per-CPU data has slots for.

use kernel::cpu::CpuId;

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
    PossibleCpus { from: 0 }
}

/// The iterator of [`possible_cpus()`].
#[derive(Clone)]
pub struct PossibleCpus {
    /// The least number that has not been looked at.
    from: u32,
}

impl Iterator for PossibleCpus {
    type Item = CpuId;

    #[inline]
    fn next(&mut self) -> Option<CpuId> {
        // SAFETY: `find_next_bit()` in `include/linux/find.h` takes any number to start from.
        let cpu = unsafe { bindings::find_possible_cpu(self.from) };
        // SAFETY: It is a constant, or reads an integer that lives as long as the kernel.
        if cpu >= unsafe { bindings::small_cpumask_bits() } {
            return None;
        }
        // OVERFLOW: It is less than another number of its type.
        self.from = cpu + 1;
        // SAFETY: It is the number of a possible CPU, as its bit is set in the mask of these, and
        // `nr_cpu_ids` is larger than all of those, see `setup_nr_cpu_ids()` in `kernel/smp.c`.
        Some(unsafe { CpuId::from_u32_unchecked(cpu) })
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

    use kernel::{
        cpu::nr_cpu_ids,
        prelude::*, //
    };

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
