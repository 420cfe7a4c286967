// SPDX-License-Identifier: GPL-2.0

//! A value that readers may see.

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

/// What it takes to free a value later, whatever its type.
///
/// # Invariants
///
/// `on_its_way` is [`Some`] if and only if the node was given to `call_srcu()`.
pub(super) struct Header {
    /// In the hands of `call_srcu()`, or of nobody.
    pub(super) rcu: Opaque<bindings::callback_head>,
    /// In the hands of a work queue, or of nobody.
    pub(super) work: Opaque<bindings::work_struct>,
    pub(super) on_its_way: Option<OnItsWay>,
}

/// What frees a node, and where that is counted.
///
/// # Invariants
///
/// - `destructor` frees the [`Node`] that this is in the header of.
/// - The node was begun in `pending`, for which the module with `destructor` waits.
pub(super) struct OnItsWay {
    pub(super) destructor: Destructor,
    pub(super) pending: Arc<Pending>,
}

/// A value with all that lists and callbacks need.
///
/// Readers have references to `value` only, and read `links`. Everything else is for who removed
/// it from where readers find it.
#[repr(C)]
pub(super) struct Node<T> {
    /// First, so that a pointer to it is one to the node.
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
    /// - `header` must be that of a `Node<T>` from [`Item::into_raw()`], and nobody else use it.
    /// - `T` must be [`Send`] if this is another task than the one that had the item.
    pub(super) unsafe fn free(header: NonNull<Header>) {
        // SAFETY: The header is first in a node, which came from `Item::into_raw()` by the contract
        // of this function.
        drop(unsafe { Item::<T>::from_raw(header.cast()) });
    }
}

/// A value on the heap that can be shown to readers, and is not yet or no longer.
///
/// It takes about a hundred bytes more than the value.
///
/// # Invariants
///
/// Nobody else has a pointer to `node`.
pub struct Item<T> {
    node: KBox<Node<T>>,
}

// SAFETY: Nobody else has a pointer to the node, so sending it sends the value.
unsafe impl<T: Send> Send for Item<T> {}

// SAFETY: An `&Item` gives access to an `&T`, and to nothing else.
unsafe impl<T: Sync> Sync for Item<T> {}

/// There was no memory for an [`Item`]; this is the value it was for.
///
/// Converts to [`ENOMEM`].
pub struct NewItemError<T> {
    /// The value.
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
    /// Fails if there is no memory, and gives the value back.
    ///
    /// Context: any that `flags` are fit for. Sleeps if they say so.
    pub fn new(value: T, flags: Flags) -> Result<Self, NewItemError<T>> {
        let Ok(slot) = KBox::<Node<T>>::new_uninit(flags) else {
            return Err(NewItemError { value });
        };
        // INVARIANT: The node is not given to anybody.
        let node = KBox::write(
            slot,
            Node {
                header: Header {
                    rcu: Opaque::uninit(),
                    work: Opaque::uninit(),
                    on_its_way: None,
                },
                links: Opaque::uninit(),
                value,
            },
        );
        // INVARIANT: It was just allocated.
        Ok(Self { node })
    }

    /// Frees the item, and returns its value.
    ///
    /// Context: any but NMI. Never sleeps.
    pub fn into_inner(self) -> T {
        KBox::into_inner(self.node).value
    }

    /// Returns the node, which is the caller's to free.
    #[inline]
    pub(super) fn into_raw(self) -> NonNull<Node<T>> {
        NonNull::from(KBox::leak(self.node))
    }

    /// Takes a node back.
    ///
    /// # Safety
    ///
    /// `node` must be from [`Item::into_raw()`], and nobody else use it.
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
