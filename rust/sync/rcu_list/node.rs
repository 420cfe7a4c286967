// SPDX-License-Identifier: GPL-2.0

//! A value on a list, and its reference count.

use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use core::mem::{
    self,
    ManuallyDrop, //
};

use crate::bindings;

/// A value on a list.
#[repr(C)]
pub(super) struct Node<T> {
    /// The first field, see [`free_rcu()`](Self::free_rcu). Only C uses it.
    pub(super) rcu: Opaque<bindings::kvfree_rcu_head>,
    pub(super) links: Opaque<bindings::list_head>,
    /// 1 for being on the list, plus 1 for each walk at the value.
    pub(super) count: Opaque<bindings::refcount_t>,
    /// Set before the reference of the list is dropped, so that a stream of walks cannot keep the
    /// value.
    pub(super) is_leaving: Atomic<bool>,
    /// Completed when `count` reaches 0.
    pub(super) done: Opaque<bindings::completion>,
    pub(super) value: ManuallyDrop<T>,
}

impl<T> Node<T> {
    /// The offset of `rcu`.
    ///
    /// C recognises an offset by its size in place of a callback address. It requires the `rcu`
    /// field on the first page of the allocation: `BUILD_BUG_ON()` of `kvfree_rcu_arg_2()` in
    /// `include/linux/rcupdate.h`.
    const RCU_OFFSET: usize = {
        let offset = mem::offset_of!(Self, rcu);
        assert!(
            offset < 4096,
            "C does not free what has its `rcu_head` there"
        );
        offset
    };

    /// Frees the memory after an RCU grace period. Does not drop the value.
    ///
    /// # Safety
    ///
    /// - `this` must be from a [`KBox`](kernel::alloc::KBox). Only RCU read-side critical sections
    ///   that have already started may still use it.
    /// - The caller must not use it again.
    pub(super) unsafe fn free_rcu(this: *mut Self) {
        // SAFETY: By the safety requirements `rcu` is in the allocation.
        let rcu = unsafe { this.byte_add(Self::RCU_OFFSET) };
        // SAFETY:
        // - The memory is from `kmalloc()`, so `kvfree()` may free it, and it is freed once.
        // - `rcu` is in the memory at an offset that C accepts, and nothing else uses it.
        unsafe { bindings::kvfree_call_rcu(rcu.cast(), this.cast()) };
    }

    /// Takes a reference, unless the node is being removed.
    ///
    /// # Safety
    ///
    /// `this` must be allocated.
    #[inline]
    pub(super) unsafe fn try_get(this: *const Self) -> bool {
        // SAFETY: By the contract of this function.
        if unsafe { &(*this).is_leaving }.load(Relaxed) {
            return false;
        }
        // SAFETY: As above.
        let count = Opaque::cast_into(unsafe { &raw const (*this).count });
        // SAFETY: `count` is initialised.
        unsafe { bindings::refcount_inc_not_zero(count) }
    }

    /// Drops a reference.
    ///
    /// # Safety
    ///
    /// The caller must own a reference.
    #[inline]
    pub(super) unsafe fn put(this: *const Self) {
        // SAFETY: The caller owns a reference.
        let count = Opaque::cast_into(unsafe { &raw const (*this).count });
        // SAFETY: `count` is initialised.
        if unsafe { bindings::refcount_dec_and_test(count) } {
            // SAFETY: The node is not freed before `complete()` has finished with it, because the
            // waiter takes the lock of the completion.
            let done = Opaque::cast_into(unsafe { &raw const (*this).done });
            // SAFETY: `done` is initialised.
            unsafe { bindings::complete(done) };
        }
    }
}

/// Initialises the completion of a node.
///
/// Not inlined: the lock of the completion has a name and a class of the module that has this code.
/// A node may outlive the module that inserts it, but not the library.
///
/// # Safety
///
/// `done` must be valid for writes.
#[inline(never)]
pub(super) unsafe fn init_done(done: *mut bindings::completion) {
    // SAFETY: By the contract of this function.
    unsafe { bindings::init_completion(done) };
}

/// Returns the node that contains `links`.
///
/// # Safety
///
/// `links` must be the `links` field of a `Node<T>`.
#[inline]
pub(super) unsafe fn node_of<T>(links: *mut bindings::list_head) -> *mut Node<T> {
    // SAFETY: By the contract of this function.
    unsafe { kernel::container_of!(Opaque::cast_from(links).cast_mut(), Node<T>, links) }
}
