// SPDX-License-Identifier: GPL-2.0

//! Events of a mapped device.

use kernel::{
    container_of,
    prelude::*,
    sync::{
        new_spinlock_irq,
        static_lock_class,
        Arc,
        SpinLockIrq, //
    },
    types::Opaque, //
};

use crate::bindings;

/// A handle that notifies user space of events of a mapped device.
///
/// `dmsetup wait` waits for an event, and `dmsetup info` prints their number. For example, a target
/// with several devices reports the failure of one.
///
/// A target keeps the handle of [`TargetBuilder::event()`]. The handle may outlive the target: it
/// has no effect then.
///
/// [`TargetBuilder::event()`]: crate::block::dm::TargetBuilder::event
#[derive(Clone)]
pub struct TableEvent(Arc<Shared>);

/// The owner of the events of a target. Dropping it closes them: [`TableEvent::trigger()`] has no
/// effect then.
pub(super) struct EventSource(Arc<Shared>);

/// The state of the events of a target.
///
/// # Invariants
///
/// - `table` is alive while the owner lives.
/// - `work` is initialised, and its function is [`send()`]. It is only queued or running while the
///   owner lives, which has a reference to this.
#[pin_data]
struct Shared {
    table: *mut bindings::dm_table,
    #[pin]
    is_open: SpinLockIrq<bool>,
    #[pin]
    work: Opaque<bindings::work_struct>,
}

// SAFETY: Any task may call `dm_table_event()`, and drop the rest.
unsafe impl Send for Shared {}

// SAFETY: `dm_table_event()` and `queue_work_on()` take the locks that they need. The other fields
// are immutable or locked.
unsafe impl Sync for Shared {}

impl TableEvent {
    /// Notifies user space of an event, a little later.
    ///
    /// Calls before the notification are one event.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `dm_table_event()` in
    /// `drivers/md/dm-table.c`, in a work item as in `drivers/md/dm-stripe.c`.
    pub fn trigger(&self) {
        let is_open = self.0.is_open.lock();

        if *is_open {
            // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
            let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
            // SAFETY: The work is initialised by the type invariants, and the kernel never frees
            // the workqueue.
            // INVARIANT: The owner lives, as it has not closed the events. It cannot do so before
            // the lock is released, and then waits for the work.
            unsafe {
                bindings::queue_work_on(cpu, bindings::system_percpu_wq, self.0.work.get());
            }
        }
    }
}

impl EventSource {
    /// Creates the events of a table.
    ///
    /// # Safety
    ///
    /// `table` must be alive until the result is dropped.
    pub(super) unsafe fn new(table: *mut bindings::dm_table) -> Result<Self> {
        let shared = Arc::pin_init(
            // INVARIANT: The work is initialised, and not queued. The other condition is this
            // function's contract.
            pin_init!(Shared {
                table,
                is_open <- new_spinlock_irq!(true, "dm::TableEvent"),
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a work item, which does not move until it is
                    // freed. The name and the class are static.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(send),
                            false,
                            c"dm::TableEvent".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self(shared))
    }

    /// Returns a handle.
    pub(super) fn event(&self) -> TableEvent {
        TableEvent(self.0.clone())
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        *self.0.is_open.lock() = false;
        // SAFETY: The work is initialised, by the type invariants of `Shared`. `ctr` or `dtr` drops
        // the owner, in process context.
        unsafe { bindings::cancel_work_sync(self.0.work.get()) };
    }
}

/// Notifies user space of an event.
///
/// # Safety
///
/// The workqueue core must call this for the `work` of a [`Shared`].
unsafe extern "C" fn send(work: *mut bindings::work_struct) {
    let work: *mut Opaque<bindings::work_struct> = work.cast();
    // SAFETY: By this function's contract.
    let shared: *const Shared = unsafe { container_of!(work, Shared, work) };
    // SAFETY: The work is running, so the owner lives, and with it this memory and the table, by
    // the type invariants.
    unsafe { bindings::dm_table_event((*shared).table) };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_event)]
mod tests {
    use super::*;

    /// `dm_table_event()` would dereference the NULL pointer.
    #[test]
    fn events_after_the_target_have_no_effect() -> Result {
        // SAFETY: No event is triggered while the owner lives.
        let source = unsafe { EventSource::new(core::ptr::null_mut()) }?;
        let events = [source.event(), source.event()];

        drop(source);
        for event in &events {
            event.trigger();
            // SAFETY: The work is initialised.
            assert!(!unsafe { bindings::cancel_work_sync(event.0.work.get()) });
        }
        Ok(())
    }
}
