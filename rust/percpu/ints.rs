// SPDX-License-Identifier: GPL-2.0

//! Integers that a CPU updates with one instruction.

use kernel::{
    cpu::CpuId,
    ffi::c_void,
    prelude::*,
    sync::atomic::{
        atomic_load,
        Relaxed, //
    }, //
};

use core::{
    cell::UnsafeCell,
    marker::PhantomData, //
};

use crate::bindings;

use super::{
    cpus::{
        is_possible,
        possible_cpus, //
    },
    partial::slot,
    slots::PerCpu, //
};

/// `N` integers of every possible CPU, for statistics.
///
/// An update is one instruction of this CPU, without lock prefix and without a guard: an interrupt
/// runs before it or after it. Reads of other CPUs are never torn, and may be stale. `N` is at
/// least 1.
pub struct PerCpuInts<I: Int, const N: usize> {
    slots: PerCpu<[UnsafeCell<I>; N]>,
}

impl<I: Int, const N: usize> PerCpuInts<I, N> {
    /// Creates integers with the value 0.
    ///
    /// Fails with [`ENOMEM`] if there is no memory or the task is being killed.
    ///
    /// Context: As [`PerCpu::pin_init()`].
    pub fn new() -> Result<Self> {
        Ok(Self {
            slots: PerCpu::zeroed()?,
        })
    }

    /// Returns the integer at `index`, or [`None`] if `index` is not less than `N`.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn get(&self, index: usize) -> Option<PerCpuInt<'_, I>> {
        if index >= N {
            return None;
        }
        // SAFETY: `index` is less than `N`.
        Some(unsafe { self.get_unchecked(index) })
    }

    /// Returns the integer at `INDEX`, which must be less than `N` (checked at compile time).
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn at<const INDEX: usize>(&self) -> PerCpuInt<'_, I> {
        const { assert!(INDEX < N, "there are only `N` integers") };
        // SAFETY: `INDEX` is less than `N`.
        unsafe { self.get_unchecked(INDEX) }
    }

    /// Returns an iterator over all integers.
    ///
    /// Context: Any context. Never sleeps.
    pub fn iter(&self) -> impl Iterator<Item = PerCpuInt<'_, I>> {
        (0..N).filter_map(|index| self.get(index))
    }

    /// Returns the integer at `index`.
    ///
    /// # Safety
    ///
    /// `index` must be less than `N`.
    #[inline]
    unsafe fn get_unchecked(&self, index: usize) -> PerCpuInt<'_, I> {
        let first = self.slots.as_percpu_ptr().cast::<I>();

        // INVARIANT: Each slot has `N` contiguous integers, and lives while `self` is borrowed. No
        // reference to them is ever created.
        PerCpuInt {
            percpu: first.wrapping_add(index).cast(),
            _slots: PhantomData,
        }
    }
}

/// An integer of every possible CPU; an element of [`PerCpuInts`].
///
/// Updates and sums wrap.
///
/// # Invariants
///
/// `percpu` is a `__percpu` pointer to an `I` in the slot of every possible CPU. For `'a`, only
/// per-CPU operations and untorn reads access it.
pub struct PerCpuInt<'a, I: Int> {
    percpu: *mut c_void,
    _slots: PhantomData<&'a PerCpu<UnsafeCell<I>>>,
}

// SAFETY: The integers are not tied to a task.
unsafe impl<I: Int> Send for PerCpuInt<'_, I> {}

// SAFETY: Concurrent tasks access the integers only as the type invariants allow.
unsafe impl<I: Int> Sync for PerCpuInt<'_, I> {}

impl<I: Int> Clone for PerCpuInt<'_, I> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<I: Int> Copy for PerCpuInt<'_, I> {}

impl<'a, I: Int> PerCpuInt<'a, I> {
    /// Adds `amount` to the integer of this CPU.
    ///
    /// Context: Any context. Never sleeps. In an NMI, only where this is one instruction, as on
    /// x86; otherwise an update may be lost. C: `this_cpu_add()` in `include/linux/percpu-defs.h`.
    #[inline]
    pub fn add(self, amount: I) {
        // SAFETY: By the type invariants `percpu` leads to an `I` of this CPU.
        unsafe { I::this_cpu_add(self.percpu, amount) };
    }

    /// Subtracts `amount` from the integer of this CPU.
    ///
    /// Context: As [`add()`](Self::add).
    #[inline]
    pub fn sub(self, amount: I) {
        self.add(amount.wrapping_neg());
    }

    /// Adds 1 to the integer of this CPU.
    ///
    /// Context: As [`add()`](Self::add).
    #[inline]
    pub fn inc(self) {
        self.add(I::ONE);
    }

    /// Subtracts 1 from the integer of this CPU.
    ///
    /// Context: As [`add()`](Self::add).
    #[inline]
    pub fn dec(self) {
        self.sub(I::ONE);
    }

    /// Returns the integer of this CPU. The task may have migrated when this returns.
    ///
    /// Context: Any context. Never sleeps. C: `this_cpu_read()` in `include/linux/percpu-defs.h`.
    #[inline]
    pub fn this_cpu(self) -> I {
        // SAFETY: By the type invariants `percpu` leads to an `I` of this CPU.
        unsafe { I::this_cpu_read(self.percpu) }
    }

    /// Returns the integer of `cpu`, or [`None`] if this CPU is not possible.
    ///
    /// Context: Any context. Never sleeps.
    #[inline]
    pub fn per_cpu(self, cpu: CpuId) -> Option<I> {
        if !is_possible(cpu) {
            return None;
        }
        // SAFETY: By the type invariants this is an `I`. Its CPU updates it with untorn writes.
        Some(unsafe { I::read_once(slot(self.percpu, cpu)) })
    }

    /// Returns an iterator over the integers of all possible CPUs, also of offline CPUs.
    ///
    /// Context: Any context. Never sleeps. Accesses the memory of every CPU.
    pub fn iter(self) -> impl Iterator<Item = (CpuId, I)> + use<'a, I> {
        possible_cpus().map(move |cpu| {
            // SAFETY: As in `per_cpu()`.
            (cpu, unsafe { I::read_once(slot(self.percpu, cpu)) })
        })
    }

    /// Returns the sum of the integers of all possible CPUs, also of offline CPUs.
    ///
    /// The sum is exact if no CPU updates its integer concurrently.
    ///
    /// Context: Any context. Never sleeps. Accesses the memory of every CPU.
    pub fn sum(self) -> I {
        self.iter()
            .fold(I::ZERO, |sum, (_, value)| sum.wrapping_add(value))
    }
}

/// An integer of 32 or 64 bits that a CPU updates with one instruction.
pub trait Int: ops::Ops {}

/// Seals [`Int`].
mod ops {
    use super::*;

    /// The per-CPU operations on an integer.
    pub trait Ops: Copy + Send + Zeroable + 'static {
        /// 0.
        const ZERO: Self;
        /// 1.
        const ONE: Self;

        /// Returns the wrapped sum.
        fn wrapping_add(self, other: Self) -> Self;

        /// Returns the wrapped negative.
        fn wrapping_neg(self) -> Self;

        /// Adds to the integer of this CPU.
        ///
        /// # Safety
        ///
        /// `percpu` must be a `__percpu` pointer to a `Self` that no reference points to.
        unsafe fn this_cpu_add(percpu: *mut c_void, amount: Self);

        /// Returns the integer of this CPU.
        ///
        /// # Safety
        ///
        /// As for [`Ops::this_cpu_add()`].
        unsafe fn this_cpu_read(percpu: *mut c_void) -> Self;

        /// Returns the integer of any CPU.
        ///
        /// # Safety
        ///
        /// `ptr` must point to a `Self` that only [`Ops::this_cpu_add()`] writes.
        unsafe fn read_once(ptr: *mut Self) -> Self;
    }
}

macro_rules! impl_int {
    ($($int:ty as $raw:ty, $add:ident, $read:ident;)*) => {$(
        impl Int for $int {}

        impl ops::Ops for $int {
            const ZERO: Self = 0;
            const ONE: Self = 1;

            #[inline]
            fn wrapping_add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline]
            fn wrapping_neg(self) -> Self {
                self.wrapping_neg()
            }

            #[inline]
            unsafe fn this_cpu_add(percpu: *mut c_void, amount: Self) {
                // CAST: The bits are the same, and so is the addition.
                //
                // SAFETY: By the safety requirements.
                unsafe { bindings::$add(percpu, amount as $raw) };
            }

            #[inline]
            unsafe fn this_cpu_read(percpu: *mut c_void) -> Self {
                // CAST: The bits are the same.
                //
                // SAFETY: By the safety requirements.
                unsafe { bindings::$read(percpu) as $int }
            }

            #[inline]
            unsafe fn read_once(ptr: *mut Self) -> Self {
                // SAFETY: Only `this_cpu_add()` writes the integer. C also reads the integers of
                // other CPUs with `READ_ONCE()`.
                unsafe { atomic_load(ptr, Relaxed) }
            }
        }
    )*};
}

impl_int! {
    u32 as u32, this_cpu_add_u32, this_cpu_read_u32;
    i32 as u32, this_cpu_add_u32, this_cpu_read_u32;
    u64 as u64, this_cpu_add_u64, this_cpu_read_u64;
    i64 as u64, this_cpu_add_u64, this_cpu_read_u64;
}

#[cfg(not(CONFIG_64BIT))]
compile_error!("an update of 64 bits is not one instruction");

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_ints)]
mod tests {
    use super::*;

    use super::super::{
        guard::with_interrupts_disabled,
        testing::on_all_cpus, //
    };

    use kernel::sync::Arc;

    #[test]
    fn integers_start_at_zero_and_are_independent() -> Result {
        let ints = PerCpuInts::<u64, 3>::new()?;
        assert!(ints.iter().all(|int| int.sum() == 0));

        ints.at::<0>().add(5);
        ints.at::<2>().inc();

        assert_eq!(ints.at::<0>().sum(), 5);
        assert_eq!(ints.at::<1>().sum(), 0);
        assert_eq!(ints.at::<2>().sum(), 1);
        Ok(())
    }

    #[test]
    fn index_beyond_n_is_rejected() -> Result {
        let ints = PerCpuInts::<i32, 4>::new()?;

        // Index, whether an integer exists.
        for (index, is_there) in [(0, true), (3, true), (4, false), (usize::MAX, false)] {
            assert_eq!(ints.get(index).is_some(), is_there);
        }
        assert_eq!(ints.iter().count(), 4);
        Ok(())
    }

    #[test]
    fn updates_wrap_around() -> Result {
        let ints = PerCpuInts::<u32, 1>::new()?;
        let signed = PerCpuInts::<i64, 1>::new()?;
        // On one CPU, because each integer wraps on its own.
        let (below, above) = with_interrupts_disabled(|_| {
            ints.at::<0>().dec();
            let below = ints.at::<0>().this_cpu();
            ints.at::<0>().inc();
            signed.at::<0>().add(i64::MAX);
            signed.at::<0>().inc();
            (below, signed.at::<0>().this_cpu())
        });

        assert_eq!(below, u32::MAX);
        assert_eq!(ints.at::<0>().sum(), 0);
        assert_eq!(above, i64::MIN);
        Ok(())
    }

    #[test]
    fn amounts_of_all_types_are_added() -> Result {
        // Amounts, and their sum.
        const SIGNED: [(i64, i64, i64); 4] = [
            (1, 2, 3),
            (-1, 1, 0),
            (-(1 << 40), -1, -(1 << 40) - 1),
            (i64::MIN, -1, i64::MAX),
        ];

        for (first, second, sum) in SIGNED {
            let ints = PerCpuInts::<i64, 1>::new()?;
            ints.at::<0>().add(first);
            ints.at::<0>().add(second);
            assert_eq!(ints.at::<0>().sum(), sum);
            ints.at::<0>().sub(second);
            assert_eq!(ints.at::<0>().sum(), first);
        }
        let narrow = PerCpuInts::<i32, 1>::new()?;
        narrow.at::<0>().sub(7);
        assert_eq!(narrow.at::<0>().sum(), -7);
        Ok(())
    }

    #[test]
    fn a_cpu_updates_its_own_integer() -> Result {
        let ints = PerCpuInts::<u64, 2>::new()?;
        let cpu = with_interrupts_disabled(|_| {
            ints.at::<1>().add(3);
            CpuId::current()
        });

        for (other, value) in ints.at::<1>().iter() {
            assert_eq!(value, if other == cpu { 3 } else { 0 });
        }
        assert_eq!(ints.at::<1>().per_cpu(cpu), Some(3));
        Ok(())
    }

    #[test]
    fn concurrent_updates_are_not_lost() -> Result {
        const ROUNDS: u64 = 20_000;
        let ints = Arc::new(PerCpuInts::<u64, 2>::new()?, GFP_KERNEL)?;

        let tasks = on_all_cpus(&ints, |ints| {
            for _ in 0..ROUNDS {
                ints.at::<0>().inc();
                ints.at::<1>().add(3);
            }
        })?;

        assert_eq!(ints.at::<0>().sum(), tasks * ROUNDS);
        assert_eq!(ints.at::<1>().sum(), 3 * tasks * ROUNDS);
        Ok(())
    }

    #[test]
    fn amounts_use_all_bits() -> Result {
        let wide = PerCpuInts::<u64, 2>::new()?;
        let narrow = PerCpuInts::<u32, 2>::new()?;
        // On one CPU, which reads its own integers.
        let (of_wide, of_narrow, cpu) = with_interrupts_disabled(|_| {
            for amount in [1 << 32, 1 << 63, 5] {
                wide.at::<1>().add(amount);
            }
            wide.at::<1>().sub(6);
            narrow.at::<1>().add(1 << 31);
            narrow.at::<1>().dec();
            (
                wide.at::<1>().this_cpu(),
                narrow.at::<1>().this_cpu(),
                CpuId::current(),
            )
        });

        assert_eq!(of_wide, (1 << 63) + (1 << 32) - 1);
        assert_eq!(of_narrow, (1 << 31) - 1);
        for other in possible_cpus() {
            let is_own = other == cpu;
            let expected = if is_own { of_wide } else { 0 };
            assert_eq!(wide.at::<1>().per_cpu(other), Some(expected));
            let expected = if is_own { of_narrow } else { 0 };
            assert_eq!(narrow.at::<1>().per_cpu(other), Some(expected));
        }
        assert_eq!((wide.at::<0>().sum(), narrow.at::<0>().sum()), (0, 0));
        Ok(())
    }

    #[test]
    fn impossible_cpu_has_no_integer() -> Result {
        let ints = PerCpuInts::<u64, 1>::new()?;

        for cpu in (0..kernel::cpu::nr_cpu_ids()).filter_map(CpuId::from_u32) {
            assert_eq!(ints.at::<0>().per_cpu(cpu).is_some(), is_possible(cpu));
        }
        assert_eq!(ints.at::<0>().iter().count(), possible_cpus().count());
        Ok(())
    }
}
