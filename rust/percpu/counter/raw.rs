// SPDX-License-Identifier: GPL-2.0

//! The C counters of both kinds.

use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use crate::{
    bindings,
    lib::task_stack, //
};

use super::lock_class::LockClass;

/// `N` C counters in one allocation.
///
/// # Invariants
///
/// A successful `__percpu_counter_init_many()` initialised `inner` for `N` counters. `inner` stays
/// pinned and initialised until `PinnedDrop` runs. [`LockClass::begin()`] has counted it.
#[pin_data(PinnedDrop)]
#[repr(transparent)]
pub(super) struct Counters<const N: usize> {
    #[pin]
    inner: Opaque<[bindings::percpu_counter; N]>,
}

// SAFETY: A `percpu_counter` is not tied to the task or CPU that created it:
// `percpu_counter_destroy_many()` may run in any task.
unsafe impl<const N: usize> Send for Counters<N> {}

// SAFETY: The C functions of the `&self` methods may run concurrently. They access this CPU's
// delta, with CPU-local atomics or with interrupts disabled, or `count`. They write `count` under
// `percpu_counter::lock`, and read it with a single load.
unsafe impl<const N: usize> Sync for Counters<N> {}

impl<const N: usize> Counters<N> {
    /// The sizes that `pcpu_alloc_noprof()` in `mm/percpu.c` accepts without a warning.
    const IS_POSSIBLE: () = assert!(
        0 < N && N <= bindings::PCPU_MIN_UNIT_SIZE / size_of::<i32>(),
        "an array has at least 1 counter and at most 8192"
    );

    /// Creates counters with the value `initial`.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU memory cannot be allocated, and with [`EINVAL`] on the
    /// stack.
    ///
    /// Context: Process context. May sleep.
    pub(super) fn new(initial: i64) -> impl PinInit<Self, Error> {
        const { Self::IS_POSSIBLE };

        try_pin_init!(Self {
            // INVARIANT: `inner` is initialised for `N` counters if this closure returns `Ok`.
            inner <- Opaque::try_ffi_init(move |slot: *mut [bindings::percpu_counter; N]| {
                task_stack::refuse(slot)?;
                // SAFETY:
                // - `slot` is valid for writes of `N` counters, by the contract of
                //   `try_ffi_init()`. `N` is not 0, so the first counter, which C writes on
                //   failure, exists.
                // - `slot` does not move before `PinnedDrop`, as `inner` is structurally pinned.
                // - The lock class lives as long as the counters that `begin()` counts. Before
                //   that, kscale is loaded and keeps the class, because this code is part of it.
                //
                // CAST: `N` is at most 8192.
                to_result(unsafe {
                    bindings::__percpu_counter_init_many(
                        slot.cast(),
                        initial,
                        bindings::GFP_KERNEL,
                        N as u32,
                        LockClass::key(),
                    )
                })?;
                LockClass::begin();
                Ok::<(), Error>(())
            }),
        })
    }

    /// Returns the first counter; the other counters follow it.
    #[inline]
    pub(super) fn get(&self) -> *mut bindings::percpu_counter {
        self.inner.get().cast()
    }
}

#[pinned_drop]
impl<const N: usize> PinnedDrop for Counters<N> {
    #[inline]
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariants `inner` is `N` counters that were initialised together.
        // `&mut self` proves that no other user is left.
        //
        // CAST: As in `new()`.
        unsafe { bindings::percpu_counter_destroy_many(self.get(), N as u32) };
        LockClass::end();
    }
}
