// SPDX-License-Identifier: GPL-2.0

//! The counters themselves, whatever kind they are.

use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

use crate::bindings;

use super::lock_class::LockClass;

/// Counters that share one allocation.
///
/// # Invariants
///
/// `inner` was initialised by a successful `__percpu_counter_init_many()` for `N` counters, and
/// stays pinned and undestroyed until `PinnedDrop` runs. [`LockClass::begin()`] was called for that.
#[pin_data(PinnedDrop)]
#[repr(transparent)]
pub(super) struct Counters<const N: usize> {
    #[pin]
    inner: Opaque<[bindings::percpu_counter; N]>,
}

// SAFETY: A `percpu_counter` is not tied to the task or the CPU that created it:
// `percpu_counter_destroy_many()` may run anywhere.
unsafe impl<const N: usize> Send for Counters<N> {}

// SAFETY: The C functions behind the `&self` methods of the counters may run concurrently: they
// touch either this CPU's delta, through CPU-local atomics or with interrupts off, or `count`, which
// they write under `percpu_counter::lock` and read at once.
unsafe impl<const N: usize> Sync for Counters<N> {}

impl<const N: usize> Counters<N> {
    /// What `pcpu_alloc_noprof()` in `mm/percpu.c` has room for; it warns of more, and of nothing.
    const IS_POSSIBLE: () = assert!(
        0 < N && N <= bindings::PCPU_MIN_UNIT_SIZE / size_of::<i32>(),
        "an array has at least 1 counter and at most 8192"
    );

    /// Creates counters that start at `initial`.
    ///
    /// Fails with [`ENOMEM`] if the per-CPU storage cannot be allocated.
    ///
    /// Context: process. May sleep.
    pub(super) fn new(initial: i64) -> impl PinInit<Self, Error> {
        const { Self::IS_POSSIBLE };

        try_pin_init!(Self {
            // INVARIANT: `inner` is initialised for `N` counters if this closure returns `Ok`.
            inner <- Opaque::try_ffi_init(move |slot: *mut [bindings::percpu_counter; N]| {
                // SAFETY:
                // - `slot` is valid for writes of `N` counters, by the contract of
                //   `try_ffi_init()`. `N` is not 0, so there is the first one that C writes to if
                //   it fails.
                // - `slot` stays put until `PinnedDrop`, as `inner` is structurally pinned.
                // - The lock class is there as long as the counters, which `begin()` notes; until
                //   then kscale, which has it, is loaded, as `begin()` is its code.
                //
                // CAST: `N` is 8192 at most.
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

    /// Returns the first counter; the others follow it.
    #[inline]
    pub(super) fn get(&self) -> *mut bindings::percpu_counter {
        self.inner.get().cast()
    }
}

#[pinned_drop]
impl<const N: usize> PinnedDrop for Counters<N> {
    #[inline]
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `inner` are `N` counters that were initialised together, by the type invariants,
        // and `&mut self` proves that no other user is left.
        //
        // CAST: As in `new()`.
        unsafe { bindings::percpu_counter_destroy_many(self.get(), N as u32) };
        LockClass::end();
    }
}
