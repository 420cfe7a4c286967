// SPDX-License-Identifier: GPL-2.0

//! Removed items, which earlier readers may still see.

use kernel::{
    ffi::c_ulong,
    prelude::*,
    sync::Arc, //
};

use core::{
    mem::ManuallyDrop,
    ptr::{
        self,
        NonNull, //
    }, //
};

use crate::bindings;

use super::{
    callbacks::{
        free_in_worker,
        free_now, //
    },
    domain::Domain,
    flavor::Flavor,
    item::{
        Item,
        Node,
        QueuedCallback, //
    },
    pending::{
        Destructor,
        Pending, //
    }, //
};

/// An item that new readers do not find.
///
/// Dropping a retired item waits for a grace period, then frees the item. The caller of drop or
/// wait must not hold a guard of the item's domain (deadlock). A leaked retired item leaks the item
/// and the domain.
///
/// # Invariants
///
/// - `node` is that of an [`Item`]. New readers of `domain` do not find it, so nothing uses it
///   after the next grace period.
/// - `pending` is that of a `Node::<T>::free()`.
/// - If `state` is `Some`, `domain` returned the cookie after `node` was removed.
#[must_use = "dropping it waits for a grace period"]
pub struct Retired<T, F: Flavor> {
    node: NonNull<Node<T>>,
    domain: Domain<F>,
    pending: Arc<Pending>,
    state: Option<c_ulong>,
}

// SAFETY: A retired item owns an item, which another task may get.
unsafe impl<T: Send, F: Flavor> Send for Retired<T, F> {}

// SAFETY: A `&Retired` has no methods.
unsafe impl<T, F: Flavor> Sync for Retired<T, F> {}

impl<T, F: Flavor> Retired<T, F> {
    /// Creates a retired item from a node.
    ///
    /// # Safety
    ///
    /// - `node` must be from [`Item::into_raw()`]. New readers of `domain` must not find it. Only
    ///   earlier readers may still use it.
    /// - `pending` must be that of a [`Node::<T>::free()`].
    #[inline]
    pub(super) unsafe fn new(
        node: NonNull<Node<T>>,
        domain: Domain<F>,
        pending: Arc<Pending>,
    ) -> Self {
        // INVARIANT: By the contract of this function.
        Self {
            node,
            domain,
            pending,
            state: None,
        }
    }

    /// Waits for a grace period, and returns the item.
    ///
    /// The caller must not hold a guard of the domain (deadlock).
    ///
    /// Context: Process context. May sleep. C: `synchronize_srcu()` in `kernel/rcu/srcutree.c`.
    pub fn wait(self) -> Item<T> {
        self.domain.synchronize();
        // SAFETY: A grace period has passed since the removal.
        unsafe { self.into_item() }
    }

    /// Waits for an expedited grace period, and returns the item.
    ///
    /// The caller must not hold a guard of the domain (deadlock).
    ///
    /// Context: As [`Domain::synchronize_expedited()`].
    pub fn wait_expedited(self) -> Item<T> {
        self.domain.synchronize_expedited();
        // SAFETY: A grace period has passed since the removal.
        unsafe { self.into_item() }
    }

    /// Returns the item if a grace period has passed, otherwise the retired item.
    ///
    /// The first call starts the grace period, so it never returns the item.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `start_poll_synchronize_srcu()` and
    /// `poll_state_synchronize_srcu()` in `kernel/rcu/srcutree.c`.
    pub fn try_wait(mut self) -> Result<Item<T>, Self> {
        let srcu = self.domain.as_raw();

        if let Some(state) = self.state {
            // SAFETY: The domain is initialised while it has handles, and by the type invariants
            // `state` is of this domain.
            if unsafe { bindings::poll_state_synchronize_srcu(srcu, state) } {
                // SAFETY: A grace period has passed since the cookie was made.
                return Ok(unsafe { self.into_item() });
            }
        } else {
            // SAFETY: The domain is initialised while it has handles.
            let state = unsafe { bindings::start_poll_synchronize_srcu(srcu) };
            // INVARIANT: The cookie is new, and of this domain.
            self.state = Some(state);
        }
        Err(self)
    }

    /// Frees the item after a grace period, in a callback.
    ///
    /// The destructor of `T` runs with softirqs disabled, so it must not sleep. The destructor may
    /// use the domain, and drop handles of it.
    ///
    /// Context: Any context except NMI. May sleep if the item holds the last handle of the domain
    /// and the caller may sleep; it then waits until the item is freed. C: `call_srcu()` in
    /// `kernel/rcu/srcutree.c`.
    pub fn free_later(self)
    where
        T: Send + 'static,
    {
        self.call(free_now);
    }

    /// Frees the item after a grace period, in a work item.
    ///
    /// The destructor of `T` may sleep. The destructor may use the domain, and wait for its grace
    /// periods. Memory reclaim must not wait for the destructor. At most 1024 destructors of all
    /// modules run at once, so a destructor must not wait for another one (deadlock).
    ///
    /// Context: As [`Retired::free_later()`].
    pub fn free_in_workqueue(self)
    where
        T: Send + 'static,
    {
        self.call(free_in_worker);
    }

    /// Passes the node to `call_srcu()`.
    fn call(self, callback: unsafe extern "C" fn(*mut bindings::callback_head))
    where
        T: Send + 'static,
    {
        let (node, domain, pending) = self.into_parts();
        // SAFETY: `node` is allocated, and nothing else uses its header.
        let header = unsafe { &raw mut (*node.as_ptr()).header };

        // The destructor of the calling module: the module that created the pointer or list may be
        // unloaded by now.
        let destructor: Destructor = Node::<T>::free;
        let pending = pending.of_caller(destructor);
        pending.begin();
        // INVARIANT: The node was counted, and is passed to `call_srcu()` below. The destructor is
        // that of the node. Its code is present, because this function refers to it and runs. The
        // code stays until the count is 0: `of_caller()` returned the count of the module that
        // contains the code, or the count that every module waits for, see `wait_for_callbacks()`.
        // SAFETY: `header` is that of `node`, see above.
        unsafe {
            (*header).callback = Some(QueuedCallback {
                destructor,
                pending,
            })
        };
        // SAFETY: As above.
        let rcu = unsafe { &raw const (*header).rcu }.cast_mut().cast();
        // SAFETY:
        // - The domain is initialised, and waits for callbacks before it is cleaned up.
        // - `rcu` stays valid until `callback` is called, because only `callback` frees the node.
        // - `callback` is a function of this module, which is freed only after the callback has
        //   returned.
        unsafe { bindings::call_srcu(domain.as_raw(), rcu, Some(callback)) };
    }

    /// Returns the item.
    ///
    /// # Safety
    ///
    /// A grace period must have passed since the removal.
    unsafe fn into_item(self) -> Item<T> {
        let (node, ..) = self.into_parts();
        // SAFETY: By the type invariants the node is from `into_raw()`. Nothing uses it now.
        unsafe { Item::from_raw(node) }
    }

    /// Splits the retired item into its parts without dropping it.
    fn into_parts(self) -> (NonNull<Node<T>>, Domain<F>, Arc<Pending>) {
        let this = ManuallyDrop::new(self);
        (
            this.node,
            // SAFETY: `this` is neither used nor dropped after this function.
            unsafe { ptr::read(&this.domain) },
            // SAFETY: As above.
            unsafe { ptr::read(&this.pending) },
        )
    }
}

impl<T, F: Flavor> Drop for Retired<T, F> {
    /// Waits for a grace period, and frees the item.
    fn drop(&mut self) {
        self.domain.synchronize();
        // SAFETY: By the type invariants the node is from `into_raw()`. Nothing uses it now, as a
        // grace period has passed. `drop` runs once.
        drop(unsafe { Item::from_raw(self.node) });
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_srcu_retired)]
mod tests {
    use super::*;

    use super::super::{
        new_domain,
        testing::{
            nap,
            pointer,
            retire,
            Drops, //
        },
        Fast,
        Normal, //
    };

    #[test]
    fn wait_returns_the_item() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let pointer = pointer(&domain, 1)?;

        assert_eq!(*retire(&pointer, 2)?.wait(), 1);
        assert_eq!(*retire(&pointer, 3)?.wait_expedited(), 2);
        assert_eq!(retire(&pointer, 4)?.wait().into_inner(), 3);
        Ok(())
    }

    #[test]
    fn guard_delays_the_free() -> Result {
        let domain: Domain<Normal> = new_domain!()?;
        let drops = Drops::new()?;
        let pointer = pointer(&domain, drops.value())?;
        let guard = domain.read_lock();

        retire(&pointer, drops.value())?.free_later();
        retire(&pointer, drops.value())?.free_in_workqueue();
        let retired = retire(&pointer, drops.value())?;
        let Err(retired) = retired.try_wait() else {
            return Err(EINVAL);
        };
        for _ in 0..10 {
            nap();
        }
        let Err(mut retired) = retired.try_wait() else {
            return Err(EINVAL);
        };
        assert_eq!(drops.count(), 0);
        drop(guard);

        let item = loop {
            match retired.try_wait() {
                Ok(item) => break item,
                Err(again) => retired = again,
            }
            nap();
        };
        drop(item);
        drops.wait_for(3);
        drop(pointer);
        assert_eq!(drops.count(), 4);
        Ok(())
    }

    #[test]
    fn dropped_retired_item_is_freed() -> Result {
        let domain: Domain<Fast> = new_domain!()?;
        let drops = Drops::new()?;
        let pointer = pointer(&domain, drops.value())?;

        drop(retire(&pointer, drops.value())?);
        assert_eq!(drops.count(), 1);
        // Also with a polled grace period that no task waits for.
        let polled = retire(&pointer, drops.value())?.try_wait();
        drop(polled);
        assert_eq!(drops.count(), 2);
        Ok(())
    }
}
