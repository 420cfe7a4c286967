// SPDX-License-Identifier: GPL-2.0

//! A value on the heap that readers may see.

use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

use core::{
    ops::{
        Deref,
        DerefMut, //
    },
    ptr::NonNull, //
};

use crate::bindings;

use super::pending::{
    Destructor,
    Pending, //
};

/// The type-independent state that frees a node later.
///
/// # Invariants
///
/// `callback` is [`Some`] if and only if the node was passed to `call_srcu()`.
pub(super) struct Header {
    /// Used only by `call_srcu()`.
    pub(super) rcu: Opaque<bindings::callback_head>,
    /// Used only by the work queue.
    pub(super) work: Opaque<bindings::work_struct>,
    pub(super) callback: Option<QueuedCallback>,
}

/// The destructor of a node, and the counter of pending destructors.
///
/// # Invariants
///
/// - `destructor` frees the [`Node`] of this header.
/// - The node was begun in `pending`, and the module of `destructor` waits for `pending`.
pub(super) struct QueuedCallback {
    pub(super) destructor: Destructor,
    pub(super) pending: Arc<Pending>,
}

/// A value with the fields that lists and callbacks need.
///
/// Readers have references to `value` only, and read `links`. All other fields belong to the writer
/// that removed the node.
#[repr(C)]
pub(super) struct Node<T> {
    /// The first field, so that a pointer to the header is a pointer to the node.
    pub(super) header: Header,
    /// Used by lists.
    pub(super) links: Opaque<bindings::list_head>,
    pub(super) value: T,
}

impl<T> Node<T> {
    /// Frees a node.
    ///
    /// # Safety
    ///
    /// - `header` must be that of a `Node<T>` from [`Item::into_raw()`], and nothing else may use
    ///   it.
    /// - `T` must be [`Send`] if the current task is not the task that had the item.
    pub(super) unsafe fn free(header: NonNull<Header>) {
        // SAFETY: The header is the first field of a node. By the contract of this function the
        // node came from `Item::into_raw()`.
        drop(unsafe { Item::<T>::from_raw(header.cast()) });
    }
}

/// A value on the heap that no reader sees: not yet published, or removed.
///
/// An item takes about a hundred bytes more than its value.
///
/// # Invariants
///
/// No other pointer to `node` exists.
pub struct Item<T> {
    node: KBox<Node<T>>,
}

// SAFETY: No other pointer to the node exists, so sending the item sends the value.
unsafe impl<T: Send> Send for Item<T> {}

// SAFETY: An `&Item` gives access to an `&T` only.
unsafe impl<T: Sync> Sync for Item<T> {}

/// The error of a failed [`Item`] allocation, with the value.
///
/// Converts to [`ENOMEM`].
pub struct NewItemError<T> {
    /// The value that was to be allocated.
    pub value: T,
}

impl<T> From<NewItemError<T>> for Error {
    fn from(_: NewItemError<T>) -> Self {
        ENOMEM
    }
}

impl<T> Item<T> {
    /// Allocates an item.
    ///
    /// Fails if there is no memory, and returns the value in the error.
    ///
    /// Context: Any context except NMI. May sleep if `flags` allow it.
    pub fn new(value: T, flags: Flags) -> Result<Self, NewItemError<T>> {
        let Ok(slot) = KBox::<Node<T>>::new_uninit(flags) else {
            return Err(NewItemError { value });
        };
        // INVARIANT: No pointer to the node is passed on.
        let node = KBox::write(
            slot,
            Node {
                header: Header {
                    rcu: Opaque::uninit(),
                    work: Opaque::uninit(),
                    callback: None,
                },
                links: Opaque::uninit(),
                value,
            },
        );
        // INVARIANT: The node was just allocated.
        Ok(Self { node })
    }

    /// Frees the item, and returns its value.
    ///
    /// Context: Any context except NMI. Never sleeps.
    pub fn into_inner(self) -> T {
        KBox::into_inner(self.node).value
    }

    /// Returns the node. The caller must free it.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<Node<T>> {
        NonNull::from(KBox::leak(self.node))
    }

    /// Converts a node back to an item.
    ///
    /// # Safety
    ///
    /// `node` must be from [`Item::into_raw()`], and nothing else may use it.
    #[inline]
    pub(super) unsafe fn from_raw(node: NonNull<Node<T>>) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            // SAFETY: `into_raw()` leaked it.
            node: unsafe { KBox::from_raw(node.as_ptr()) },
        }
    }
}

impl<T> Deref for Item<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.node.value
    }
}

impl<T> DerefMut for Item<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.node.value
    }
}
