// SPDX-License-Identifier: GPL-2.0

//! Pools with an allocator of the caller's own.

use kernel::bindings::{
    gfp_t,
    mempool_alloc_t,
    mempool_free_t, //
};

use core::{
    ffi::c_void,
    mem::MaybeUninit,
    ptr::{
        self,
        NonNull, //
    }, //
};

use super::{
    memory::{
        empty_slots,
        full_slots,
        Memory, //
    },
    source::Source, //
};

use crate::mm::gfp::Gfp;

/// Where a [`Mempool`](super::Mempool) gets its memory while there is some: with a limit, say, or
/// with statistics.
///
/// Calls run concurrently. The pool holds no lock meanwhile. C does not poison what it keeps for
/// who has an allocator of their own, as it knows nothing of the size.
pub trait Allocator: Send + Sync {
    /// What the pool consists of: [`Page`](crate::mm::page::Page)s, or a `KBox<MaybeUninit<T>>` from
    /// [`Kmalloc::alloc`](super::Kmalloc::alloc) for each value.
    type Memory: Memory;

    /// Allocates memory.
    ///
    /// `gfp` has [`Gfp::NORETRY`] if the pool can do without it: it then takes some from its
    /// reserve, or waits. An allocator with a limit of its own checks it in that case only, as the
    /// pool also fills its reserve from here, once and without the flag.
    ///
    /// Context: that of the pool's caller. Must not sleep unless `gfp` allows it.
    fn alloc(&self, gfp: Gfp) -> Option<Self::Memory>;

    /// Frees memory.
    ///
    /// Context: any but NMI, whatever the context of its allocation. Must not sleep.
    fn free(&self, memory: Self::Memory);

    /// Puts memory into `slots`, which are empty, from the first on.
    ///
    /// `gfp` has [`Gfp::NORETRY`]: the pool gets the rest from [`alloc`](Self::alloc) and from its
    /// reserve. It gives memory behind an empty slot back. The default leaves all slots empty.
    ///
    /// Context: that of the pool's caller. Must not sleep unless `gfp` allows it.
    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Self::Memory>]) {
        let _ = (gfp, slots);
    }

    /// Frees the memory in `slots`.
    ///
    /// The default calls [`free`](Self::free) for each.
    ///
    /// Context: as [`free`](Self::free).
    fn free_bulk(&self, slots: &mut [Option<Self::Memory>]) {
        slots
            .iter_mut()
            .filter_map(Option::take)
            .for_each(|memory| self.free(memory));
    }

    /// Notes that the pool gave `count` elements to somebody, from here or from its reserve.
    ///
    /// Context: that of the pool's caller. Must not sleep.
    #[inline]
    fn taken(&self, count: usize) {
        let _ = count;
    }
}

// SAFETY: `alloc_fn()` returns memory that an allocator owned and gave away, and `free_fn()` gives
// it back.
unsafe impl<A: Allocator> Source for A {
    type Memory = A::Memory;

    const ALLOC: mempool_alloc_t = Some(alloc_fn::<A>);
    const FREE: mempool_free_t = Some(free_fn::<A>);

    unsafe fn data(this: *const Self) -> *mut c_void {
        this.cast_mut().cast()
    }

    unsafe fn alloc_bulk(&self, gfp: Gfp, slots: &mut [MaybeUninit<A::Memory>]) -> usize {
        let slots = empty_slots(slots);
        Allocator::alloc_bulk(self, gfp, slots);

        let populated = slots.iter().take_while(|slot| slot.is_some()).count();
        let rest = slots.get_mut(populated..).unwrap_or_default();
        if rest.iter().any(Option::is_some) {
            free_all(self, rest);
        }
        populated
    }

    unsafe fn free_bulk(&self, slots: &mut [MaybeUninit<A::Memory>]) {
        // SAFETY: By the safety requirements.
        free_all(self, unsafe { full_slots(slots) });
    }

    #[inline]
    unsafe fn taken(&self, count: usize) {
        Allocator::taken(self, count);
    }
}

/// Frees all memory in `slots`, even if `allocator` leaves some.
fn free_all<A: Allocator>(allocator: &A, slots: &mut [Option<A::Memory>]) {
    allocator.free_bulk(slots);
    slots.fill_with(|| None);
}

/// Allocates memory for C.
///
/// # Safety
///
/// `allocator` must be the address of an `A`.
unsafe extern "C" fn alloc_fn<A: Allocator>(gfp: gfp_t, allocator: *mut c_void) -> *mut c_void {
    // SAFETY: By the safety requirements.
    let allocator = unsafe { &*allocator.cast::<A>() };

    match allocator.alloc(Gfp::from_raw(gfp)) {
        Some(memory) => memory.into_raw().as_ptr(),
        None => ptr::null_mut(),
    }
}

/// Frees memory that C has no room for.
///
/// # Safety
///
/// - `allocator` must be the address of an `A`.
/// - `memory` must be fit for [`Memory::from_raw`], and the caller gives it away.
unsafe extern "C" fn free_fn<A: Allocator>(memory: *mut c_void, allocator: *mut c_void) {
    // SAFETY: By the safety requirements.
    let allocator = unsafe { &*allocator.cast::<A>() };

    if let Some(memory) = NonNull::new(memory) {
        // SAFETY: By the safety requirements.
        allocator.free(unsafe { Memory::from_raw(memory) });
    }
}
