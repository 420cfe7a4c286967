// SPDX-License-Identifier: GPL-2.0

//! A value on a list, and who looks at it.

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
    /// First, see [`free_rcu()`](Self::free_rcu), which gives it to C. Nobody else has it.
    pub(super) rcu: Opaque<bindings::kvfree_rcu_head>,
    pub(super) links: Opaque<bindings::list_head>,
    /// 1 for being on the list, and 1 for everybody who looks at the value.
    pub(super) count: Opaque<bindings::refcount_t>,
    /// Set before the 1 for being on the list goes, so that walks cannot keep each other's alive.
    pub(super) is_leaving: Atomic<bool>,
    /// Completed when `count` gets 0.
    pub(super) done: Opaque<bindings::completion>,
    pub(super) value: ManuallyDrop<T>,
}

impl<T> Node<T> {
    /// Where `rcu` is.
    ///
    /// C tells it from the address of a callback by its size, and has the beginning of an allocation
    /// be on its first page: `BUILD_BUG_ON()` of `kvfree_rcu_arg_2()` in `include/linux/rcupdate.h`.
    const RCU_OFFSET: usize = {
        let offset = mem::offset_of!(Self, rcu);
        assert!(
            offset < 4096,
            "C does not free what has its `rcu_head` there"
        );
        offset
    };

    /// Frees the memory after a grace period of RCU. Does not drop the value.
    ///
    /// # Safety
    ///
    /// - `this` must be from a [`KBox`](kernel::alloc::KBox), and nobody find it any more but those
    ///   in critical sections of RCU.
    /// - The caller must not use it again.
    pub(super) unsafe fn free_rcu(this: *mut Self) {
        // SAFETY: It is in the allocation, by the safety requirements.
        let rcu = unsafe { this.byte_add(Self::RCU_OFFSET) };
        // SAFETY:
        // - The memory is from `kmalloc()`, which `kvfree()` is for, and is freed once.
        // - `rcu` is in it, where C looks for it, and nobody else uses that.
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
    /// The caller must have one.
    #[inline]
    pub(super) unsafe fn put(this: *const Self) {
        // SAFETY: The caller has a reference.
        let count = Opaque::cast_into(unsafe { &raw const (*this).count });
        // SAFETY: `count` is initialised.
        if unsafe { bindings::refcount_dec_and_test(count) } {
            // SAFETY: The node is not freed before `complete()` is done with it, as who waits for
            // it takes its lock.
            let done = Opaque::cast_into(unsafe { &raw const (*this).done });
            // SAFETY: `done` is initialised.
            unsafe { bindings::complete(done) };
        }
    }
}

/// Returns the node that `links` is a field of.
///
/// # Safety
///
/// `links` must be that of a node of `T`.
#[inline]
pub(super) unsafe fn node_of<T>(links: *mut bindings::list_head) -> *mut Node<T> {
    // SAFETY: By the contract of this function.
    unsafe { kernel::container_of!(Opaque::cast_from(links).cast_mut(), Node<T>, links) }
}
