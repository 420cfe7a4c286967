// SPDX-License-Identifier: GPL-2.0

//! The modules whose work items are refused, as they are being unloaded.
//!
//! An item may queue itself again. So from some time on, items of the going module are not queued
//! any more. A second [flush](super::queues) waits for items that were being queued at that time.

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        rcu, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::ptr;

use crate::bindings;

use super::queues::{
    is_user,
    QUEUES, //
};

/// A slot for a module whose items are not queued any more.
struct Slot {
    /// NULL if the slot is free.
    module: Atomic<*mut bindings::module>,
    next: Option<&'static Slot>,
}

/// The newest slot. [`Slot::next`] has the others.
///
/// Slots are added when all are in use, and used again. They are freed with the library: an interrupt
/// handler may read any of them at any time.
static SLOTS: Atomic<*mut Slot> = Atomic::new(ptr::null_mut());

/// The number of modules in [`SLOTS`], plus those that are about to be added.
static GOING_COUNT: Atomic<usize> = Atomic::new(0);

/// Returns all slots.
fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: NULL, or a slot that `add_slot()` has initialised before it stored this pointer. Slots
    // do not change, except for atomic fields, and are freed when no other code of the library runs.
    let first = unsafe { SLOTS.load(Acquire).as_ref() };
    core::iter::successors(first, |slot| slot.next)
}

/// Adds a slot for a module, and returns it.
///
/// Fails with [`ENOMEM`].
fn add_slot(module: *mut bindings::module) -> Result<&'static Slot> {
    let module = Atomic::new(module);
    let mut slot = KBox::new(Slot { module, next: None }, GFP_KERNEL)?;
    // Held while the pointer is changed.
    let queues = QUEUES.lock();

    slot.next = slots().next();
    let raw = KBox::into_raw(slot);
    SLOTS.store(raw, Release);
    drop(queues);
    // SAFETY: It was just allocated. `free_slots()` frees it when no other code of the library runs.
    Ok(unsafe { &*raw })
}

/// Frees all slots.
///
/// # Safety
///
/// No other code of the library may run, or run later, except for its exit function.
pub(super) unsafe fn free_slots() {
    let mut raw = SLOTS.load(Relaxed);
    SLOTS.store(ptr::null_mut(), Relaxed);
    while !raw.is_null() {
        // SAFETY: `add_slot()` leaked it from a `KBox`, and by the safety requirements nothing else
        // uses it.
        let slot = unsafe { KBox::from_raw(raw) };
        raw = slot
            .next
            .map_or(ptr::null_mut(), |next| ptr::from_ref(next).cast_mut());
    }
}

/// Refuses items of a going module until it is dropped.
///
/// # Invariants
///
/// If `slot` is [`Some`], the module is in that slot, and is counted in [`GOING_COUNT`].
pub(crate) struct Going {
    slot: Option<&'static Slot>,
}

impl Going {
    /// Starts to refuse items of `module`.
    ///
    /// An item or a destructor of [`srcu`](crate::sync::srcu) that has started earlier may still queue
    /// an item. So the caller must flush, wait for these destructors, and flush once more. The value
    /// must be dropped before the module is freed.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn new(module: *mut bindings::module) -> Self {
        if is_user(module) {
            Self::begin(module)
        } else {
            Self { slot: None }
        }
    }

    /// As [`new()`](Self::new), for a module that may have items.
    fn begin(module: *mut bindings::module) -> Self {
        GOING_COUNT.fetch_add(1, Relaxed);
        let is_free = |slot: &&Slot| {
            let slot = &slot.module;
            slot.cmpxchg(ptr::null_mut(), module, Full).is_ok()
        };
        let slot = loop {
            let free = slots().find(is_free);
            if let Some(slot) = free.or_else(|| add_slot(module).ok()) {
                break slot;
            }
            // There is no memory.
            fsleep(Delta::from_millis(10));
        };

        // After the grace period every interrupt handler sees the slot. Items that do not see it
        // are flushed by the caller.
        rcu::synchronize_rcu();
        // INVARIANT: The module was just added and counted.
        Self { slot: Some(slot) }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.module.store(ptr::null_mut(), Release);
            GOING_COUNT.fetch_sub(1, Relaxed);
        }
    }
}

/// Returns whether an item must not be queued, because its module is going, or because it does not
/// have the function at `own`.
///
/// # Safety
///
/// `work` must be valid, and initialised.
#[inline]
pub(super) unsafe fn is_refused(work: *mut bindings::work_struct, own: usize) -> bool {
    // SAFETY: By the safety requirements. The field does not change after initialisation.
    let func = unsafe { (*work).func };
    if func.map(|func| func as usize) != Some(own) {
        is_foreign();
        return true;
    }
    GOING_COUNT.load(Relaxed) != 0 && is_going(own)
}

/// Logs that an item of another module is refused.
#[cold]
#[inline(never)]
fn is_foreign() {
    pr_err!("workqueue: an item is not queued: another module created it\n");
}

/// Returns whether the function at `address` is code of a module that is going.
#[cold]
#[inline(never)]
fn is_going(address: usize) -> bool {
    // The kernel waits for a grace period after the slot is cleared, before it frees the module.
    let _rcu = rcu::read_lock();

    slots().any(|slot| {
        let module = slot.module.load(Acquire);
        // SAFETY: The module is not freed before the critical section ends.
        !module.is_null() && unsafe { bindings::within_module(address, module) }
    })
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_workqueue_going)]
mod tests {
    use super::{
        super::{
            queues::flush_all,
            testing::{
                own_code,
                own_module,
                queue,
                Slow, //
            }, //
        },
        *, //
    };

    use kernel::sync::Arc;

    use crate::module::cleanup::testing::empty_module;

    #[test]
    fn items_of_a_going_module_are_refused() -> Result {
        let queue = queue()?;
        let (before, meanwhile, after) = (Slow::new()?, Slow::new()?, Slow::new()?);

        assert!(queue.enqueue(before.clone()).is_ok());
        // Twice, as for two modules.
        let first = Going::begin(own_module());
        flush_all(&own_code());
        let has_run = before.runs();
        let second = Going::begin(own_module());
        drop(first);
        let is_leaked = queue.enqueue(meanwhile.clone()).is_ok();
        drop(second);
        assert!(queue.enqueue(after.clone()).is_ok());
        drop(queue);

        assert_eq!(has_run, 1);
        assert!(is_leaked);
        assert_eq!((meanwhile.runs(), after.runs()), (0, 1));
        // SAFETY: The refused item leaked this reference, which nothing else owns.
        drop(unsafe { Arc::from_raw(Arc::as_ptr(&meanwhile)) });
        assert!(Arc::into_unique_or_drop(meanwhile).is_some());
        Ok(())
    }

    #[test]
    fn items_of_other_modules_are_queued() -> Result {
        let (queue, item) = (queue()?, Slow::new()?);

        let going = Going::begin(empty_module());
        assert!(queue.enqueue(item.clone()).is_ok());
        drop(queue);
        drop(going);

        assert_eq!(item.runs(), 1);
        assert!(Arc::into_unique_or_drop(item).is_some());
        Ok(())
    }

    /// Modules may wait for another going module.
    #[test]
    fn any_number_of_modules_may_be_going() -> Result {
        const MODULES: usize = 20;
        let mut going = KVec::with_capacity(MODULES, GFP_KERNEL)?;
        for _ in 0..MODULES {
            going.push(Going::begin(empty_module()), GFP_KERNEL)?;
        }
        let slots_then = slots().count();
        drop(going);
        let again = Going::begin(empty_module());

        assert!(slots_then >= MODULES);
        // Slots are used again.
        assert_eq!(slots().count(), slots_then);
        drop(again);
        Ok(())
    }
}
