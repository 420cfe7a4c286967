// SPDX-License-Identifier: GPL-2.0

//! The modules whose work items are counted, and then refused, as they are being unloaded.
//!
//! The notifier must [flush](super::queues) after the last item, so items are counted. An item may
//! queue itself again, and a timer may queue an item each time. So from some time on, work items
//! and interrupts cannot queue items of the going module any more. Other tasks can: a destructor or
//! a callback may wait for its item, and does not run without an end. The notifier drops what is
//! refused.

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

use crate::{
    bindings,
    lib::ratelimit::printk_ratelimit,
    module::cleanup::is_in_refusal, //
};

use super::{
    item::{
        DropItem,
        Refused, //
    },
    queues::{
        is_user,
        QUEUES, //
    }, //
};

/// A slot for a module that is going.
struct Slot {
    /// NULL if the slot is free.
    module: Atomic<*mut bindings::module>,
    /// Whether items are refused. `false` if the slot is free.
    is_refusing: Atomic<bool>,
    /// The number of items that were about to be queued while the slot was in use. It may wrap
    /// around.
    queued: Atomic<usize>,
    /// The refused items.
    refused: Refused,
    next: Option<&'static Slot>,
}

/// The newest slot. [`Slot::next`] has the others.
///
/// Slots are added when all are in use, and used again. They are freed with the library: an
/// interrupt handler may read any of them at any time.
static SLOTS: Atomic<*mut Slot> = Atomic::new(ptr::null_mut());

/// The number of modules in [`SLOTS`], plus those that are about to be added.
static GOING_COUNT: Atomic<usize> = Atomic::new(0);

/// Returns all slots.
fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: NULL, or a slot that `add_slot()` has initialised before it stored this pointer.
    // Slots do not change, except for atomic fields, and are freed when no other code of the
    // library runs.
    let first = unsafe { SLOTS.load(Acquire).as_ref() };
    core::iter::successors(first, |slot| slot.next)
}

/// Adds a slot for a module, and returns it.
///
/// Fails with [`ENOMEM`].
fn add_slot(module: *mut bindings::module) -> Result<&'static Slot> {
    let slot = Slot {
        module: Atomic::new(module),
        is_refusing: Atomic::new(false),
        queued: Atomic::new(0),
        refused: Refused::new(),
        next: None,
    };
    let mut slot = KBox::new(slot, GFP_KERNEL)?;
    // Held while the pointer is changed.
    let queues = QUEUES.lock();

    slot.next = slots().next();
    let raw = KBox::into_raw(slot);
    SLOTS.store(raw, Release);
    drop(queues);
    // SAFETY: It was just allocated. `free_slots()` frees it when no other code of the library
    // runs.
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

/// Counts the items of a going module, or refuses them in work items and interrupts, until it is
/// dropped.
///
/// # Invariants
///
/// If `slot` is [`Some`], the module is in that slot, and is counted in [`GOING_COUNT`].
pub(crate) struct Going {
    slot: Option<&'static Slot>,
}

impl Going {
    /// Starts to count items of `module`.
    ///
    /// An item or a destructor of [`srcu`](crate::sync::srcu) that has started earlier may still
    /// queue an item that is not counted. So the caller must flush, wait for these destructors, and
    /// flush once more. It must then go on while [`queued()`](Self::queued) changes, or items are
    /// refused. The value must be dropped before the module is freed.
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

    /// Refuses items of work items and interrupts from now on. Those that have started earlier may
    /// still queue some.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn refuse(&self) {
        if let Some(slot) = self.slot {
            if !slot.is_refusing.load(Relaxed) {
                slot.is_refusing.store(true, Relaxed);
                // As in `begin()`.
                rcu::synchronize_rcu();
            }
        }
    }

    /// Returns the number of items that were queued, or were about to be. It may wrap around.
    pub(crate) fn queued(&self) -> usize {
        self.slot.map_or(0, |slot| slot.queued.load(Relaxed))
    }

    /// Returns whether there are refused items.
    pub(crate) fn has_refused(&self) -> bool {
        self.slot.is_some_and(|slot| !slot.refused.is_empty())
    }

    /// Drops the refused items, and returns whether there were some.
    ///
    /// Context: Process context. May sleep.
    pub(crate) fn drop_refused(&self) -> bool {
        self.slot.is_some_and(|slot| slot.refused.drop_all())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.is_refusing.store(false, Relaxed);
            slot.module.store(ptr::null_mut(), Release);
            GOING_COUNT.fetch_sub(1, Relaxed);
        }
    }
}

/// Returns whether an item does not have the function at `own`, with a line in the log.
///
/// # Safety
///
/// `work` must be valid, and initialised.
#[inline]
pub(super) unsafe fn is_foreign(work: *mut bindings::work_struct, own: usize) -> bool {
    // SAFETY: By the safety requirements. The field does not change after initialisation.
    let func = unsafe { (*work).func };
    let is_foreign = func.map(|func| func as usize) != Some(own);
    if is_foreign {
        log_foreign();
    }
    is_foreign
}

#[cold]
#[inline(never)]
fn log_foreign() {
    // A timer may try again all the time.
    if printk_ratelimit() {
        pr_err!("workqueue: an item is not queued: another module created it\n");
    }
}

/// Handles an item that must not be queued, because the caller is an item or an interrupt and its
/// module is going. `own` is the address of the function of the item.
///
/// Returns [`None`] if the item must be queued. Otherwise returns whether the item was not queued
/// before, and the notifier drops it by `drop`.
///
/// # Safety
///
/// - `work` must be valid and initialised, and valid until the item is dropped if this returns
///   `Some(true)`.
/// - It must then be sound to call `drop` with it in process context, from any task.
#[inline]
pub(super) unsafe fn refuse(
    work: *mut bindings::work_struct,
    own: usize,
    drop: DropItem,
) -> Option<bool> {
    if GOING_COUNT.load(Relaxed) == 0 {
        return None;
    }
    // SAFETY: By the safety requirements.
    unsafe { refuse_if_going(work, own, drop) }
}

/// Refuses an item if the function at `address` is code of a module whose items are refused, and
/// the caller may be a work item or an interrupt. Counts the item otherwise. The result is that of
/// [`refuse()`].
///
/// # Safety
///
/// As for [`refuse()`].
#[cold]
#[inline(never)]
unsafe fn refuse_if_going(
    work: *mut bindings::work_struct,
    address: usize,
    drop: DropItem,
) -> Option<bool> {
    // The kernel waits for a grace period after the slot is cleared, before it frees the module.
    let _rcu = rcu::read_lock();
    let slot = slots().find(|slot| {
        let module = slot.module.load(Acquire);
        // SAFETY: The module is not freed before the critical section ends.
        !module.is_null() && unsafe { bindings::within_module(address, module) }
    })?;

    if slot.is_refusing.load(Relaxed) && may_be_endless() {
        // SAFETY: By the safety requirements.
        return Some(unsafe { slot.refused.add(work, drop) });
    }
    slot.queued.fetch_add(1, Relaxed);
    None
}

/// Returns whether the caller may queue items without an end: it is an interrupt or a work item,
/// but not a destructor that the library calls in an item.
fn may_be_endless() -> bool {
    // SAFETY: There are no requirements.
    let (in_interrupt, in_worker) = unsafe { (bindings::in_interrupt(), bindings::in_worker()) };
    in_interrupt || in_worker && !is_in_refusal()
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
            },
            Workqueue, //
        },
        *, //
    };

    use kernel::{
        impl_has_work,
        new_work,
        sync::Arc,
        workqueue::{
            Work,
            WorkItem, //
        }, //
    };

    use crate::module::cleanup::testing::empty_module;

    /// An item that queues another one.
    #[pin_data]
    struct Outer {
        queue: Arc<Workqueue>,
        inner: Arc<Slow>,
        #[pin]
        work: Work<Outer>,
    }

    impl_has_work! {
        impl HasWork<Self> for Outer { self.work }
    }

    impl WorkItem for Outer {
        type Pointer = Arc<Outer>;

        fn run(this: Arc<Outer>) {
            assert!(this.queue.enqueue(this.inner.clone()).is_ok());
        }
    }

    /// Runs an item that queues `inner`, and returns the number of runs of `inner`.
    fn runs_from_an_item(queue: &Arc<Workqueue>, inner: &Arc<Slow>) -> Result<u32> {
        let outer = Arc::pin_init(
            pin_init!(Outer {
                queue: queue.clone(),
                inner: inner.clone(),
                work <- new_work!("kscale_workqueue::Outer"),
            }),
            GFP_KERNEL,
        )?;
        assert!(queue.enqueue(outer).is_ok());
        // The second one waits for `inner`.
        flush_all(&own_code());
        flush_all(&own_code());
        Ok(inner.runs())
    }

    #[test]
    fn items_of_a_going_module_queue_no_items() -> Result {
        let queue = Arc::new(queue()?, GFP_KERNEL)?;
        let (before, meanwhile, after) = (Slow::new()?, Slow::new()?, Slow::new()?);

        let runs_before = runs_from_an_item(&queue, &before)?;
        // Twice, as for two modules.
        let first = Going::begin(own_module());
        let second = Going::begin(own_module());
        drop(first);
        second.refuse();
        let runs_meanwhile = runs_from_an_item(&queue, &meanwhile)?;
        let is_again = queue.enqueue(meanwhile.clone()).is_err();
        let (was_kept, was_dropped) = (second.has_refused(), second.drop_refused());
        let is_kept = second.has_refused();
        drop(second);
        let runs_after = runs_from_an_item(&queue, &after)?;

        assert_eq!((runs_before, runs_meanwhile, runs_after), (1, 0, 1));
        // It counts as queued until it is dropped.
        assert_eq!(
            (is_again, was_kept, was_dropped, is_kept),
            (true, true, true, false)
        );
        // It can be queued again then.
        assert_eq!(runs_from_an_item(&queue, &meanwhile)?, 1);
        assert!(Arc::into_unique_or_drop(meanwhile).is_some());
        Ok(())
    }

    #[test]
    fn items_are_counted_until_they_are_refused() -> Result {
        let (queue, inner) = (Arc::new(queue()?, GFP_KERNEL)?, Slow::new()?);

        let going = Going::begin(own_module());
        let queued = going.queued();
        let runs = runs_from_an_item(&queue, &inner)?;

        assert_eq!((runs, going.has_refused()), (1, false));
        // The outer and the inner one.
        assert_eq!(going.queued(), queued.wrapping_add(2));
        assert!(!going.drop_refused());
        Ok(())
    }

    /// A destructor or a callback may wait for its item.
    #[test]
    fn tasks_of_a_going_module_queue_items_that_are_counted() -> Result {
        let (queue, item) = (queue()?, Slow::new()?);

        let going = Going::begin(own_module());
        going.refuse();
        let queued = going.queued();
        assert!(queue.enqueue(item.clone()).is_ok());
        drop(queue);

        assert_eq!(item.runs(), 1);
        assert_eq!(going.queued(), queued.wrapping_add(1));
        Ok(())
    }

    #[test]
    fn interrupts_of_a_going_module_queue_no_items() -> Result {
        let (queue, item) = (queue()?, Slow::new()?);

        let going = Going::begin(own_module());
        going.refuse();
        // SAFETY: Enabled again below.
        unsafe { bindings::local_bh_disable() };
        let is_queued = queue.enqueue(item.clone()).is_ok();
        // SAFETY: Disabled above.
        unsafe { bindings::local_bh_enable() };
        drop(queue);
        assert!(going.drop_refused());
        drop(going);

        assert!(is_queued);
        assert_eq!(item.runs(), 0);
        assert!(Arc::into_unique_or_drop(item).is_some());
        Ok(())
    }

    #[test]
    fn items_of_other_modules_are_queued() -> Result {
        let (queue, item) = (queue()?, Slow::new()?);

        let going = Going::begin(empty_module());
        going.refuse();
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
