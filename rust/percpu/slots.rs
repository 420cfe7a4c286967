// SPDX-License-Identifier: GPL-2.0

//! A value for every possible CPU.

use kernel::{
    cpu::CpuId,
    ffi::c_void,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    ops::Deref,
    ptr::NonNull, //
};

use crate::bindings;

use super::{
    cpus::{
        is_possible,
        possible_cpus, //
    },
    guard::{
        preempt_disable,
        InterruptsDisabled,
        PreemptDisabled, //
    },
    partial::{
        slot,
        PartialPerCpu, //
    }, //
};

/// A value for every possible CPU.
///
/// `T` has at most [`MAX_SIZE_BYTES`](Self::MAX_SIZE_BYTES) bytes, an alignment of at most a page,
/// and a size other than 0 (checked at compile time). Values are pinned.
///
/// # Invariants
///
/// - `base` came from `pcpu_alloc_noprof()` with the size and alignment of `T`. Only `Drop` frees
///   it.
/// - The slot of every possible CPU holds a `T` until `Drop`.
pub struct PerCpu<T> {
    /// A `__percpu` pointer of C: an offset to the slots, not the address of a slot.
    base: NonNull<c_void>,
    _slots: PhantomData<T>,
}

// SAFETY: The memory is not tied to a task. The task that drops it drops the values, which are
// `Send`.
unsafe impl<T: Send> Send for PerCpu<T> {}

// SAFETY: Several tasks get a `&T` of one value at the same time only if `T` is `Sync`. Otherwise
// they get it one after another, which requires `Send`.
unsafe impl<T: Send> Sync for PerCpu<T> {}

impl<T> PerCpu<T> {
    /// The largest size of a value in bytes, `PCPU_MIN_UNIT_SIZE`: 32 KiB.
    pub const MAX_SIZE_BYTES: usize = bindings::PCPU_MIN_UNIT_SIZE;

    /// Creates the value of each possible CPU with `value`, in ascending order of the CPUs.
    ///
    /// Values pass over the stack; [`pin_init()`](Self::pin_init) initialises them in place.
    ///
    /// Fails as [`pin_init()`](Self::pin_init) does.
    ///
    /// Context: As [`pin_init()`](Self::pin_init).
    pub fn new(value: impl FnMut(CpuId) -> Result<T>) -> Result<Self> {
        Self::pin_init(value)
    }

    /// Initialises the value of each possible CPU in place, in ascending order of the CPUs.
    ///
    /// Fails with the error of the first initialiser that fails; the earlier values are dropped.
    /// Fails with [`ENOMEM`] if there is no memory or the task is being killed.
    ///
    /// Context: Process context. May sleep. Allocates with `GFP_KERNEL`, as `alloc_percpu()` does.
    /// An I/O path must call it in a [`noio_scope()`](crate::mm::gfp::noio_scope). Atomic
    /// allocation, which is unreliable in C, is not supported.
    pub fn pin_init<I, E>(mut init: impl FnMut(CpuId) -> I) -> Result<Self>
    where
        I: PinInit<T, E>,
        Error: From<E>,
    {
        let mut slots = PartialPerCpu::new()?;

        for cpu in possible_cpus() {
            slots.init_next(cpu, init(cpu))?;
        }

        // INVARIANT: All possible CPUs are initialised.
        Ok(Self::of(slots.finish()))
    }

    /// Creates a zeroed value for each possible CPU.
    ///
    /// Fails with [`ENOMEM`] if there is no memory or the task is being killed.
    ///
    /// Context: As [`pin_init()`](Self::pin_init).
    pub(crate) fn zeroed() -> Result<Self>
    where
        T: Zeroable,
    {
        // INVARIANT: `pcpu_alloc_noprof()` in `mm/percpu.c` zeroes the slots of all possible CPUs.
        // Zeros are a valid `T`.
        Ok(Self::of(PartialPerCpu::<T>::new()?.finish()))
    }

    /// Wraps slots whose values are all initialised.
    fn of(base: NonNull<c_void>) -> Self {
        Self {
            base,
            _slots: PhantomData,
        }
    }

    /// Returns the value of this CPU. While interrupts are disabled, only this task accesses it.
    ///
    /// If `T` is [`Sync`], other CPUs may access it, too. Calls nest and return a `&T`. To change
    /// the value, `T` needs interior mutability, for example [`Cell`](core::cell::Cell).
    ///
    /// Context: Any context except NMI. Never sleeps. C: `this_cpu_ptr()` in
    /// `include/linux/percpu-defs.h`.
    #[inline]
    pub fn this_cpu<'a>(&'a self, _interrupts_off: &'a InterruptsDisabled) -> &'a T
    where
        T: Send,
    {
        // SAFETY:
        // - By the type invariants the slot of a possible CPU holds a `T` while `self` is borrowed.
        //   Every CPU that runs code is possible.
        // - If `T` is not `Sync`, every other live `&T` of this slot came from this method. It
        //   belongs to this task, on this CPU: since then no other task and no interrupt has run
        //   here, and none runs while the proof lives.
        // - No `&mut T` exists, as it requires a mutable borrow of `self`.
        unsafe { &*self.current_slot() }
    }

    /// Returns the value of the CPU that the task runs on.
    ///
    /// The task may migrate before it uses the value, so this only spreads the load.
    /// [`get_cpu()`](Self::get_cpu) prevents migration.
    ///
    /// Context: Any context. Never sleeps. C: `raw_cpu_ptr()` in `include/linux/percpu-defs.h`.
    #[inline]
    pub fn raw_cpu(&self) -> &T
    where
        T: Sync,
    {
        // SAFETY: By the type invariants the slot of a possible CPU holds a `T` while `self` is
        // borrowed. No `&mut T` exists, and several CPUs may share a `T`.
        unsafe { &*self.current_slot() }
    }

    /// Returns a guard of this CPU's value, with preemption disabled.
    ///
    /// The task must not sleep while it holds the guard.
    ///
    /// Context: Any context. Never sleeps. C: `get_cpu_ptr()` in `include/linux/percpu-defs.h`.
    #[inline]
    pub fn get_cpu(&self) -> CpuGuard<'_, T>
    where
        T: Sync,
    {
        let preemption = preempt_disable();

        CpuGuard {
            value: self.raw_cpu(),
            _preemption: preemption,
        }
    }

    /// Returns the value of `cpu`, or [`None`] if this CPU is not possible.
    ///
    /// Context: Any context. Never sleeps. C: `per_cpu_ptr()` in `include/linux/percpu-defs.h`.
    #[inline]
    pub fn per_cpu(&self, cpu: CpuId) -> Option<&T>
    where
        T: Sync,
    {
        if !is_possible(cpu) {
            return None;
        }
        // SAFETY: As in `raw_cpu()`.
        Some(unsafe { &*self.slot(cpu) })
    }

    /// Returns an iterator over the values of all possible CPUs, also of offline CPUs.
    ///
    /// Context: Any context. Never sleeps. Accesses the memory of every CPU.
    pub fn iter(&self) -> impl Iterator<Item = (CpuId, &T)>
    where
        T: Sync,
    {
        possible_cpus().map(|cpu| {
            // SAFETY: As in `raw_cpu()`.
            (cpu, unsafe { &*self.slot(cpu) })
        })
    }

    /// Returns an iterator over mutable references to the values of all possible CPUs.
    ///
    /// Context: Any context. Never sleeps. Accesses the memory of every CPU.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (CpuId, Pin<&mut T>)> {
        let this = &*self;
        possible_cpus().map(|cpu| {
            // SAFETY:
            // - By the type invariants the slot of a possible CPU holds a `T` while `self` is
            //   borrowed.
            // - `self` is borrowed mutably, so no other reference exists, and the iterator returns
            //   each CPU once.
            let value = unsafe { &mut *this.slot(cpu) };
            // SAFETY: The value is pinned by the type invariants.
            (cpu, unsafe { Pin::new_unchecked(value) })
        })
    }

    /// Returns the `__percpu` pointer for C's per-CPU operations.
    #[inline]
    pub(super) fn as_percpu_ptr(&self) -> *mut c_void {
        self.base.as_ptr()
    }

    /// Returns the slot of the CPU that the task runs on.
    #[inline]
    fn current_slot(&self) -> *mut T {
        // SAFETY: The helper only computes an address, for any pointer.
        unsafe { bindings::raw_cpu_ptr(self.base.as_ptr()) }.cast()
    }

    /// Returns the slot of a possible CPU.
    #[inline]
    fn slot(&self, cpu: CpuId) -> *mut T {
        slot(self.base.as_ptr(), cpu)
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariants `finish()` returned `base`, and all values are
        // initialised. Nothing uses `self` after this.
        drop(unsafe { PartialPerCpu::<T>::all(self.base) });
    }
}

/// A guard of this CPU's value; preemption is disabled while the guard lives.
///
/// Returned by [`PerCpu::get_cpu()`].
pub struct CpuGuard<'a, T> {
    value: &'a T,
    _preemption: PreemptDisabled,
}

impl<T> Deref for CpuGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu)]
mod tests {
    use super::*;

    use super::super::{
        guard::with_interrupts_disabled,
        testing::on_all_cpus, //
    };

    use kernel::{
        cpu::nr_cpu_ids,
        new_spinlock,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc,
            SpinLock, //
        }, //
    };

    use core::{
        cell::Cell,
        ptr, //
    };

    #[test]
    fn each_possible_cpu_has_its_own_value() -> Result {
        let numbers = PerCpu::new(|cpu| Ok(cpu.as_u32()))?;

        assert_eq!(numbers.iter().count(), possible_cpus().count());
        for (cpu, number) in numbers.iter() {
            assert_eq!(*number, cpu.as_u32());
            assert_eq!(numbers.per_cpu(cpu).copied(), Some(cpu.as_u32()));
        }
        Ok(())
    }

    #[test]
    fn impossible_cpu_has_no_value() -> Result {
        let zeros = PerCpu::<u8>::zeroed()?;

        for cpu in (0..nr_cpu_ids()).filter_map(CpuId::from_u32) {
            assert_eq!(zeros.per_cpu(cpu).is_some(), is_possible(cpu));
        }
        Ok(())
    }

    #[test]
    fn this_cpu_matches_per_cpu() -> Result {
        let numbers = PerCpu::new(|cpu| Ok(cpu.as_u32()))?;

        let with_proof =
            with_interrupts_disabled(|proof| (*numbers.this_cpu(proof), CpuId::current().as_u32()));
        let guard = numbers.get_cpu();
        let with_guard = (*guard, CpuId::current().as_u32());
        drop(guard);

        assert_eq!(with_proof.0, with_proof.1);
        assert_eq!(with_guard.0, with_guard.1);
        assert!(*numbers.raw_cpu() < nr_cpu_ids());
        Ok(())
    }

    #[test]
    fn a_guard_keeps_preemption_off() -> Result {
        // SAFETY: The helper only reads the state of this CPU.
        let in_atomic = || unsafe { bindings::in_atomic() };
        let zeros = PerCpu::<u64>::zeroed()?;

        let guard = zeros.get_cpu();
        let with_guard = in_atomic();
        drop(guard);

        assert!(with_guard);
        assert!(!in_atomic());
        Ok(())
    }

    #[test]
    fn values_are_aligned_and_apart() -> Result {
        #[repr(align(64))]
        struct Line(#[expect(dead_code, reason = "only its size matters")] [u8; 65]);

        let lines = PerCpu::new(|_| Ok(Line([1; 65])))?;
        let mut last = None;

        for (_, line) in lines.iter() {
            // CAST: To an address.
            let address = ptr::from_ref(line) as usize;
            assert_eq!(address % 64, 0);
            if let Some(last) = last.replace(address) {
                assert!(address.abs_diff(last) >= 128);
            }
        }
        Ok(())
    }

    #[test]
    fn largest_size_and_alignment_are_allocated() -> Result {
        // Not made by `new()`: several copies of it would not fit into a kernel stack.
        #[derive(Zeroable)]
        #[repr(align(4096))]
        struct Page(u32);

        let large = PerCpu::<[u8; PerCpu::<u8>::MAX_SIZE_BYTES]>::zeroed()?;
        let pages = PerCpu::<Page>::zeroed()?;

        assert!(large
            .iter()
            .all(|(_, bytes)| bytes.iter().all(|byte| *byte == 0)));
        assert!(pages.iter().all(|(_, page)| {
            let address = core::ptr::from_ref(page).addr();
            page.0 == 0 && address % align_of::<Page>() == 0
        }));
        Ok(())
    }

    #[test]
    fn cell_is_changed_with_interrupts_disabled_and_read_by_the_owner() -> Result {
        let mut cells = PerCpu::new(|_| Ok(Cell::new(0_u32)))?;

        with_interrupts_disabled(|outer| {
            let cell = cells.this_cpu(outer);
            cell.set(1);
            with_interrupts_disabled(|inner| cells.this_cpu(inner).set(cell.get() + 1));
        });

        let sum: u32 = cells.iter_mut().map(|(_, cell)| cell.get()).sum();
        assert_eq!(sum, 2);
        Ok(())
    }

    #[test]
    fn concurrent_cell_updates_are_not_lost() -> Result {
        const ROUNDS: u64 = 5_000;
        let cells = Arc::new(PerCpu::new(|_| Ok(Cell::new(0_u64)))?, GFP_KERNEL)?;

        let tasks = on_all_cpus(&cells, |cells| {
            for _ in 0..ROUNDS {
                with_interrupts_disabled(|proof| {
                    let cell = cells.this_cpu(proof);
                    cell.set(cell.get() + 1);
                });
            }
        })?;

        // All tasks have dropped their references.
        let mut cells = Arc::into_unique_or_drop(cells).ok_or(EBUSY)?;
        let cells = cells.as_mut().get_mut();
        let sum: u64 = cells.iter_mut().map(|(_, cell)| cell.get()).sum();
        assert_eq!(sum, tasks * ROUNDS);
        Ok(())
    }

    #[test]
    fn values_are_initialised_in_place() -> Result {
        let locks = PerCpu::<SpinLock<u32>>::pin_init(|cpu| new_spinlock!(cpu.as_u32()))?;

        for (cpu, lock) in locks.iter() {
            *lock.lock() += 1;
            assert_eq!(*lock.lock(), cpu.as_u32() + 1);
        }
        Ok(())
    }

    #[test]
    fn the_owner_may_change_all_values() -> Result {
        let mut numbers = PerCpu::<u64>::zeroed()?;

        for (cpu, mut number) in numbers.iter_mut() {
            *number = cpu.as_u32().into();
        }

        assert!(numbers
            .iter()
            .all(|(cpu, number)| u64::from(cpu.as_u32()) == *number));
        Ok(())
    }

    #[test]
    fn every_cpu_finds_its_own_value() -> Result {
        let numbers = PerCpu::new(|cpu| Ok((cpu.as_u32(), Atomic::new(0_u32))))?;
        let numbers = Arc::new(numbers, GFP_KERNEL)?;

        on_all_cpus(&numbers, |numbers| {
            for _ in 0..1000 {
                let guard = numbers.get_cpu();
                let mut is_own = guard.0 == CpuId::current().as_u32();
                drop(guard);
                with_interrupts_disabled(|proof| {
                    is_own &= numbers.this_cpu(proof).0 == CpuId::current().as_u32();
                    is_own &= numbers.raw_cpu().0 == CpuId::current().as_u32();
                });
                numbers.raw_cpu().1.add(u32::from(!is_own), Relaxed);
            }
        })?;

        assert!(numbers
            .iter()
            .all(|(_, number)| number.1.load(Relaxed) == 0));
        Ok(())
    }

    #[test]
    fn iterator_follows_cpu_numbers() -> Result {
        let mut next = possible_cpus();
        let mut numbers = PerCpu::new(|cpu| {
            let is_next = next.next() == Some(cpu);
            is_next.then_some(cpu.as_u32()).ok_or(EINVAL)
        })?;

        let found = numbers.iter().map(|(cpu, _)| cpu);
        assert!(found.eq(possible_cpus()));
        assert!(numbers
            .iter_mut()
            .all(|(cpu, number)| *number == cpu.as_u32()));
        assert_eq!(numbers.iter_mut().count(), possible_cpus().count());
        Ok(())
    }
}
