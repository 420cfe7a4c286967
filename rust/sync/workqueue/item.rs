// SPDX-License-Identifier: GPL-2.0

//! The pointers that own work items, and the items that were refused.

use kernel::{
    prelude::*,
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        atomic::{
            Atomic,
            Full,
            Relaxed, //
        },
        Arc, //
    },
    workqueue::{
        HasWork,
        Work,
        WorkItem,
        WorkItemPointer, //
    }, //
};

use core::{
    mem::transmute,
    ptr::{
        self,
        NonNull, //
    }, //
};

use crate::bindings;

/// A pointer that owns an item of a [`Workqueue`](super::Workqueue): an [`Arc`], an [`ARef`] or a
/// pinned [`KBox`].
///
/// # Safety
///
/// [`from_work()`](Self::from_work) must return the pointer that `__enqueue()` has given up.
pub unsafe trait ItemPointer<const ID: u64>: WorkItemPointer<ID> {
    /// Returns the pointer that owns an item.
    ///
    /// # Safety
    ///
    /// `work` must be from `__enqueue()`, whose closure has returned `true`. The caller becomes the
    /// owner of the pointer that `__enqueue()` has given up: no queue may own it, and this must be
    /// called once.
    #[doc(hidden)]
    unsafe fn from_work(work: *mut bindings::work_struct) -> Self;
}

// SAFETY: As `run()` of the same type in `rust/kernel/workqueue.rs`.
unsafe impl<T, const ID: u64> ItemPointer<ID> for Arc<T>
where
    T: WorkItem<ID, Pointer = Self> + HasWork<T, ID>,
{
    unsafe fn from_work(work: *mut bindings::work_struct) -> Self {
        // SAFETY: `__enqueue()` passes the `work_struct` of the `Work` in a `T`, a transparent
        // type.
        let item = unsafe { T::work_container_of(work.cast::<Work<T, ID>>()) };
        // SAFETY: It came from `Arc::into_raw()` in `__enqueue()`, and by the safety requirements
        // nothing else owns it.
        unsafe { Self::from_raw(item) }
    }
}

// SAFETY: As `run()` of the same type in `rust/kernel/workqueue.rs`.
unsafe impl<T, const ID: u64> ItemPointer<ID> for Pin<KBox<T>>
where
    T: WorkItem<ID, Pointer = Self> + HasWork<T, ID>,
{
    unsafe fn from_work(work: *mut bindings::work_struct) -> Self {
        // SAFETY: `__enqueue()` passes the `work_struct` of the `Work` in a `T`, a transparent
        // type.
        let item = unsafe { T::work_container_of(work.cast::<Work<T, ID>>()) };
        // SAFETY: It came from `KBox::into_raw()` in `__enqueue()`, and by the safety requirements
        // nothing else owns it.
        let item = unsafe { KBox::from_raw(item) };
        // SAFETY: It was pinned before.
        unsafe { Pin::new_unchecked(item) }
    }
}

// SAFETY: As `run()` of the same type in `rust/kernel/workqueue.rs`.
unsafe impl<T, const ID: u64> ItemPointer<ID> for ARef<T>
where
    T: AlwaysRefCounted + WorkItem<ID, Pointer = Self> + HasWork<T, ID>,
{
    unsafe fn from_work(work: *mut bindings::work_struct) -> Self {
        // SAFETY: `__enqueue()` passes the `work_struct` of the `Work` in a `T`, a transparent
        // type.
        let item = unsafe { T::work_container_of(work.cast::<Work<T, ID>>()) };
        // SAFETY: It came from `ARef::into_raw()` in `__enqueue()`, so it is not NULL, and by the
        // safety requirements nothing else owns it.
        unsafe { Self::from_raw(NonNull::new_unchecked(item)) }
    }
}

/// Drops an item.
///
/// # Safety
///
/// As for [`ItemPointer::from_work()`].
pub(super) unsafe fn drop_item<W: ItemPointer<ID>, const ID: u64>(
    work: *mut bindings::work_struct,
) {
    // SAFETY: By the safety requirements.
    drop(unsafe { W::from_work(work) });
}

/// The instance of [`drop_item()`] for an item.
pub(super) type DropItem = unsafe fn(*mut bindings::work_struct);

/// The items that were refused, until they are dropped.
///
/// They are linked by `entry.next`. `entry.prev` is the [`DropItem`]. An item counts as queued
/// meanwhile, so nothing else uses its entry. An interrupt can allocate no memory on all kernels.
pub(super) struct Refused(Atomic<*mut bindings::work_struct>);

impl Refused {
    pub(super) const fn new() -> Self {
        Self(Atomic::new(ptr::null_mut()))
    }

    /// Adds an item that is not queued, and returns whether there was one.
    ///
    /// # Safety
    ///
    /// - `work` must be valid and initialised, and valid until the item is dropped if this returns
    ///   `true`.
    /// - It must then be sound to call `drop` with it in process context, from any task.
    ///
    /// Context: Any context. Never sleeps.
    pub(super) unsafe fn add(&self, work: *mut bindings::work_struct, drop: DropItem) -> bool {
        // SAFETY: By the safety requirements.
        if !unsafe { bindings::work_set_pending(work) } {
            return false;
        }
        // SAFETY: By the safety requirements the item is valid. It was just acquired, so nothing
        // else uses the entry. CAST: From a function, as `drop_all()` expects it.
        unsafe { (*work).entry.prev = drop as *mut bindings::list_head };
        let mut first = self.0.load(Relaxed);
        loop {
            // SAFETY: As above. CAST: As `drop_all()` expects it.
            unsafe { (*work).entry.next = first.cast() };
            match self.0.cmpxchg(first, work, Full) {
                Ok(_) => return true,
                Err(other) => first = other,
            }
        }
    }

    /// Returns whether there are no items.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Relaxed).is_null()
    }

    /// Drops all items, and returns whether there were some.
    ///
    /// Context: Process context. May sleep.
    pub(super) fn drop_all(&self) -> bool {
        let mut work = self.0.xchg(ptr::null_mut(), Full);
        let had_items = !work.is_null();
        while !work.is_null() {
            let item = work;
            // SAFETY: The item is valid until it is dropped, by the contract of `add()`, which has
            // written its entry. The exchange has removed it from the list, so it is dropped once.
            let (next, drop) = unsafe { ((*item).entry.next, (*item).entry.prev) };
            // CAST: `add()` has stored this pointer.
            work = next.cast();
            // SAFETY: As above. `add()` has acquired it.
            unsafe { bindings::work_clear_pending(item) };
            // SAFETY: `add()` has stored this function.
            let drop = unsafe { transmute::<*mut bindings::list_head, DropItem>(drop) };
            // SAFETY: By the contract of `add()`.
            unsafe { drop(item) };
        }
        had_items
    }
}
