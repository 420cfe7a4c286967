// SPDX-License-Identifier: GPL-2.0

//! Per-CPU memory whose values are partly initialised.

use kernel::{
    cpu::CpuId,
    ffi::c_void,
    page::PAGE_SIZE,
    prelude::*, //
};

use core::{
    marker::PhantomData,
    mem::{
        align_of,
        needs_drop,
        size_of,
        ManuallyDrop, //
    },
    ptr::{
        self,
        NonNull, //
    }, //
};

use pin_init::raw_try_init;

use crate::bindings;

use super::{
    cpus::possible_cpus,
    slots::PerCpu, //
};

/// Slots, some of which are not initialised yet.
///
/// # Invariants
///
/// - `base` is as in [`PerCpu`].
/// - The slots of the first `initialised` possible CPUs hold a pinned `T`.
pub(super) struct PartialPerCpu<T> {
    base: NonNull<c_void>,
    initialised: usize,
    _slots: PhantomData<T>,
}

impl<T> PartialPerCpu<T> {
    /// Allocates zeroed slots.
    pub(super) fn new() -> Result<Self> {
        const {
            assert!(size_of::<T>() != 0, "per-CPU data must not be of size 0");
            assert!(
                size_of::<T>() <= PerCpu::<T>::MAX_SIZE_BYTES,
                "per-CPU data must not be larger than `PerCpu::MAX_SIZE_BYTES`"
            );
            assert!(
                align_of::<T>() <= PAGE_SIZE,
                "per-CPU data must not be aligned to more than a page"
            );
        }

        // SAFETY: `pcpu_alloc_noprof()` in `mm/percpu.c` accepts any size and alignment. The
        // assertions above exclude those that make it warn.
        let base = unsafe {
            bindings::pcpu_alloc_noprof(
                size_of::<T>(),
                align_of::<T>(),
                false,
                bindings::GFP_KERNEL,
            )
        };
        // INVARIANT: No slot is initialised.
        Ok(Self {
            base: NonNull::new(base).ok_or(ENOMEM)?,
            initialised: 0,
            _slots: PhantomData,
        })
    }

    /// Initialises the slot of `cpu`, the first possible CPU without a value.
    pub(super) fn init_next<E>(&mut self, cpu: CpuId, init: impl PinInit<T, E>) -> Result<(), E> {
        // SAFETY: The slot is memory for a `T` that nothing else uses and that does not move. On
        // failure it is not accessed again.
        unsafe { raw_try_init(slot::<T>(self.base.as_ptr(), cpu), init)? };

        // INVARIANT: One more slot is initialised.
        self.initialised += 1;
        Ok(())
    }

    /// Returns the slots. The caller must drop the values and free the slots.
    pub(super) fn finish(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).base
    }

    /// Takes back slots whose values are all initialised.
    ///
    /// # Safety
    ///
    /// `base` must be what [`Self::finish()`] returned. All slots must hold a `T`, and nothing may
    /// use them after this.
    pub(super) unsafe fn all(base: NonNull<c_void>) -> Self {
        // INVARIANT: All possible CPUs are initialised, and there are less than `usize::MAX`.
        Self {
            base,
            initialised: usize::MAX,
            _slots: PhantomData,
        }
    }
}

impl<T> Drop for PartialPerCpu<T> {
    fn drop(&mut self) {
        if needs_drop::<T>() {
            for cpu in possible_cpus().take(self.initialised) {
                // SAFETY: By the type invariants the slot holds a `T`, which nothing uses again.
                unsafe { ptr::drop_in_place(slot::<T>(self.base.as_ptr(), cpu)) };
            }
        }
        // SAFETY: `base` came from `pcpu_alloc_noprof()`, and nothing uses it now.
        unsafe { bindings::free_percpu(self.base.as_ptr()) };
    }
}

/// Returns the slot of a possible CPU for a `__percpu` pointer.
#[inline]
pub(super) fn slot<T>(percpu: *mut c_void, cpu: CpuId) -> *mut T {
    // SAFETY: The helper only computes an address, for any pointer and CPU number.
    unsafe { bindings::per_cpu_ptr(percpu, cpu.as_u32()) }.cast()
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_percpu_partial)]
mod tests {
    use super::*;

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    /// Counts its live values.
    struct Live<'a>(&'a Atomic<usize>);

    impl<'a> Live<'a> {
        fn new(count: &'a Atomic<usize>) -> Self {
            count.add(1, Relaxed);
            Self(count)
        }
    }

    impl Drop for Live<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }

    #[test]
    fn every_value_is_dropped_once() -> Result {
        let count = Atomic::new(0_usize);

        let live = PerCpu::new(|_| Ok(Live::new(&count)))?;

        assert_eq!(count.load(Relaxed), possible_cpus().count());
        drop(live);
        assert_eq!(count.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn failed_initialiser_drops_earlier_values() {
        for fails in 0..possible_cpus().count() {
            let count = Atomic::new(0_usize);
            let mut made = 0;

            let result = PerCpu::new(|_| {
                if made == fails {
                    return Err(ENODEV);
                }
                made += 1;
                Ok(Live::new(&count))
            });

            assert_eq!(result.err(), Some(ENODEV));
            assert_eq!(made, fails);
            assert_eq!(count.load(Relaxed), 0);
        }
    }
}
