// SPDX-License-Identifier: GPL-2.0

//! Pools with a user-defined allocator.

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

/// A user-defined source of memory for a [`Mempool`](super::Mempool), for example with a limit or
/// with statistics.
///
/// Calls run concurrently. The pool holds no lock during a call. C does not poison the reserve of a
/// pool with a user-defined allocator, because it does not know the size of the elements.
pub trait Allocator: Send + Sync {
    /// The memory of an element: [`Page`](crate::mm::page::Page), or a `KBox<MaybeUninit<T>>` from
    /// [`Kmalloc::alloc`](super::Kmalloc::alloc) for a value.
    type Memory: Memory;

    /// Allocates memory.
    ///
    /// `gfp` has [`Gfp::NORETRY`] if the pool can handle a failure: the pool then allocates from
    /// its reserve, or waits. An allocator with a limit should check the limit only if `gfp` has
    /// this flag: the pool calls this function without the flag to fill its reserve.
    ///
    /// Context: The caller's context. May sleep if `gfp` allows it.
    fn alloc(&self, gfp: Gfp) -> Option<Self::Memory>;

    /// Frees memory.
    ///
    /// The context may differ from the context of the allocation.
    ///
    /// Context: Any context except NMI. Must not sleep.
    fn free(&self, memory: Self::Memory);

    /// Puts memory into the empty `slots`, starting with the first slot.
    ///
    /// `gfp` has [`Gfp::NORETRY`]: the pool fills the remaining slots by [`alloc`](Self::alloc) and
    /// from its reserve. The pool frees memory in slots after the first empty slot. The default
    /// leaves all slots empty.
    ///
    /// Context: The caller's context. May sleep if `gfp` allows it.
    fn alloc_bulk(&self, gfp: Gfp, slots: &mut [Option<Self::Memory>]) {
        let _ = (gfp, slots);
    }

    /// Frees the memory in `slots`.
    ///
    /// The default calls [`free`](Self::free) for each slot.
    ///
    /// Context: As [`free`](Self::free).
    fn free_bulk(&self, slots: &mut [Option<Self::Memory>]) {
        slots
            .iter_mut()
            .filter_map(Option::take)
            .for_each(|memory| self.free(memory));
    }

    /// Called when the pool has handed out `count` elements from the allocator or from its reserve.
    ///
    /// Context: The caller's context. Must not sleep.
    #[inline]
    fn taken(&self, count: usize) {
        let _ = count;
    }
}

// SAFETY: `alloc_fn()` returns memory whose ownership the allocator gave up, and `free_fn()`
// returns the ownership to the allocator.
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

/// Frees all memory in `slots`, including slots that `allocator` did not free.
fn free_all<A: Allocator>(allocator: &A, slots: &mut [Option<A::Memory>]) {
    allocator.free_bulk(slots);
    slots.fill_with(|| None);
}

/// The `mempool_alloc_t` of an allocator.
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

/// The `mempool_free_t` of an allocator.
///
/// # Safety
///
/// - `allocator` must be the address of an `A`.
/// - `memory` must be valid for [`Memory::from_raw`], and the caller must give up its ownership.
unsafe extern "C" fn free_fn<A: Allocator>(memory: *mut c_void, allocator: *mut c_void) {
    // SAFETY: By the safety requirements.
    let allocator = unsafe { &*allocator.cast::<A>() };

    if let Some(memory) = NonNull::new(memory) {
        // SAFETY: By the safety requirements.
        allocator.free(unsafe { Memory::from_raw(memory) });
    }
}
