// SPDX-License-Identifier: GPL-2.0

//! A value on a list, and who looks at it.

use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    types::Opaque, //
};

use core::mem::ManuallyDrop;

use crate::bindings;

/// A value on a list.
pub(super) struct Node<T> {
    /// In the hands of `kvfree_call_rcu()`, or of nobody.
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
