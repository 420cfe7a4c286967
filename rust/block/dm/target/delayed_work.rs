// SPDX-License-Identifier: GPL-2.0

//! Work of a target that runs after a delay.
//!
//! A timer queues a work item, as in `drivers/md/dm-delay.c`. Both belong to the target: `dtr`
//! shuts the timer down, and disables the work item, before it drops the target. So neither uses a
//! target or a module that is gone, however the target uses its handle.

use kernel::{
    container_of,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        static_lock_class,
        Arc, //
    },
    time::{
        msecs_to_jiffies,
        Delta, //
    },
    types::Opaque, //
};

use core::{
    ffi::c_void,
    ptr::{
        self,
        NonNull, //
    }, //
};

use crate::{
    bindings,
    sync::workqueue::Workqueue, //
};

use super::target_type::{
    self,
    TargetType, //
};

/// A handle that runs [`Target::delayed_work()`] after a delay.
///
/// A target keeps the handle of [`TargetBuilder::delayed_work()`]. The handle may outlive the
/// target: it has no effect then.
///
/// [`Target::delayed_work()`]: crate::block::dm::Target::delayed_work
/// [`TargetBuilder::delayed_work()`]: crate::block::dm::TargetBuilder::delayed_work
#[derive(Clone)]
pub struct DelayedWork(Arc<Shared>);

/// The owner of the delayed work of a target. Dropping it closes it.
pub(super) struct WorkSource {
    shared: Arc<Shared>,
    /// Dropped after the timer, which queues to it.
    _queue: Arc<Workqueue>,
}

/// The timer and the work item of a target.
///
/// # Invariants
///
/// - `timer` is initialised, and its function is [`expire()`]. It is only pending or running until
///   the owner is closed, which has a reference to this and to `queue`.
/// - `work` is initialised, and its function is [`target_type::run_delayed_work()`]. It is only
///   queued or running until the owner is closed.
/// - `target` is null, or an `Inner` of a target of type `target_type` that lives, and is not
///   borrowed mutably, until the owner is closed.
#[pin_data]
pub(super) struct Shared {
    #[pin]
    timer: Opaque<bindings::timer_list>,
    #[pin]
    work: Opaque<bindings::work_struct>,
    queue: *mut bindings::workqueue_struct,
    target_type: NonNull<TargetType>,
    target: Atomic<*mut c_void>,
}

// SAFETY: Any task may start the timer, and drop the rest.
unsafe impl Send for Shared {}

// SAFETY: `timer_reduce()` takes the lock that it needs. The other fields are immutable or atomic.
unsafe impl Sync for Shared {}

impl DelayedWork {
    /// Runs [`Target::delayed_work()`] after `delay`, or earlier if it is already queued with a
    /// shorter delay.
    ///
    /// The calls before a run have one run in common. The work is queued again if this is called
    /// while it runs. Has no effect before the target is constructed, and after it was dropped.
    ///
    /// The delay is rounded up to the next tick of the timer, and limited to 24 days. A negative
    /// delay is 0.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `timer_reduce()` in `kernel/time/timer.c`.
    ///
    /// [`Target::delayed_work()`]: crate::block::dm::Target::delayed_work
    pub fn queue(&self, delay: Delta) {
        if self.0.target.load(Acquire).is_null() {
            return;
        }
        let millis = delay.as_millis_ceil().clamp(0, i32::MAX.into());
        // CAST: It is in the range.
        let jiffies = msecs_to_jiffies(millis as u32);
        // SAFETY: `jiffies` is an aligned word that other CPUs change, see `jiffies.h`.
        let now = unsafe { ptr::read_volatile(&raw const bindings::jiffies) };
        // SAFETY: The timer is initialised by the type invariants.
        // INVARIANT: If the owner is closed, it has shut the timer down, and this does nothing.
        unsafe { bindings::timer_reduce(self.0.timer.get(), now.wrapping_add(jiffies)) };
    }
}

impl WorkSource {
    /// Creates the delayed work of a target, on `queue`. It does not start before
    /// [`WorkSource::open()`].
    pub(super) fn new(target_type: NonNull<TargetType>, queue: Arc<Workqueue>) -> Result<Self> {
        let raw = queue.as_raw();
        let shared = Arc::pin_init(
            // INVARIANT: Timer and work item are initialised, and neither pending nor queued.
            pin_init!(Shared {
                timer <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a timer, which does not move until it is freed.
                    unsafe { init_timer(slot) }
                }),
                work <- Opaque::ffi_init(|slot| {
                    // SAFETY: `slot` is memory for a work item, which does not move until it is
                    // freed. The name and the class are static.
                    unsafe {
                        bindings::init_work_with_key(
                            slot,
                            Some(target_type::run_delayed_work),
                            false,
                            c"dm::DelayedWork".as_char_ptr(),
                            static_lock_class!().as_ptr(),
                        );
                    }
                }),
                queue: raw,
                target_type,
                target: Atomic::new(ptr::null_mut()),
            }),
            GFP_KERNEL,
        )?;
        Ok(Self {
            shared,
            _queue: queue,
        })
    }

    /// Returns a handle.
    pub(super) fn handle(&self) -> DelayedWork {
        DelayedWork(self.shared.clone())
    }

    /// Allows the work to start.
    ///
    /// # Safety
    ///
    /// `target` must be the `Inner` of a target of the type that was passed to
    /// [`WorkSource::new()`]. It must live until [`WorkSource::close()`] is called, and must not be
    /// borrowed mutably until then.
    pub(super) unsafe fn open(&self, target: *mut c_void) {
        // INVARIANT: By this function's contract.
        self.shared.target.store(target, Release);
    }

    /// Waits for the work, and ends it: [`DelayedWork::queue()`] has no effect from here on.
    ///
    /// Must be called by `ctr` or `dtr`.
    pub(super) fn close(&self) {
        // SAFETY: The timer is initialised, by the type invariants of `Shared`. This is process
        // context, and `expire()` takes no lock that this task holds.
        unsafe { bindings::timer_shutdown_sync(self.shared.timer.get()) };
        // SAFETY: As above, for the work item. It does not wait for `ctr` or `dtr` of its own
        // target, which only device mapper calls.
        unsafe { bindings::disable_work_sync(self.shared.work.get()) };
    }
}

impl Drop for WorkSource {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Returns the type of the target, and the target, of a running work item.
    ///
    /// # Safety
    ///
    /// `work` must be the work item of a [`Shared`], and running.
    pub(super) unsafe fn target_of(
        work: *mut bindings::work_struct,
    ) -> Option<(NonNull<TargetType>, NonNull<c_void>)> {
        let work: *mut Opaque<bindings::work_struct> = work.cast();
        // SAFETY: By this function's contract.
        let this: *const Self = unsafe { container_of!(work, Self, work) };
        // SAFETY: The work item is running, so the owner is not closed, by the type invariants.
        let this = unsafe { &*this };
        Some((this.target_type, NonNull::new(this.target.load(Acquire))?))
    }
}

/// Initialises a timer with [`expire()`].
///
/// # Safety
///
/// `slot` must be valid for writes, and must not move until the timer is shut down.
unsafe fn init_timer(slot: *mut bindings::timer_list) {
    // SAFETY: By this function's contract.
    unsafe { bindings::timer_setup(slot, Some(expire)) };
}

/// Queues the work of a target.
///
/// # Safety
///
/// The timer core must call this for the `timer` of a [`Shared`].
unsafe extern "C" fn expire(timer: *mut bindings::timer_list) {
    let timer: *mut Opaque<bindings::timer_list> = timer.cast();
    // SAFETY: By this function's contract.
    let shared: *const Shared = unsafe { container_of!(timer, Shared, timer) };
    // CAST: The constant is `NR_CPUS`, far below `i32::MAX`.
    let cpu = bindings::wq_misc_consts_WORK_CPU_UNBOUND as kernel::ffi::c_int;
    // SAFETY: The timer is running, so the owner is not closed, and keeps this memory and the
    // queue, by the type invariants. The work item is initialised. INVARIANT: To close the owner is
    // to wait for this function, and then for the work.
    unsafe { bindings::queue_work_on(cpu, (*shared).queue, (*shared).work.get()) };
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_dm_delayed_work)]
mod tests {
    use super::*;

    use crate::sync::workqueue::Flags;

    fn source() -> Result<WorkSource> {
        let queue = Workqueue::new(c"kscale_kunit", Flags::UNBOUND, 0)?;
        WorkSource::new(NonNull::dangling(), Arc::new(queue, GFP_KERNEL)?)
    }

    fn jiffies() -> kernel::time::Jiffies {
        // SAFETY: As in `queue()`.
        unsafe { ptr::read_volatile(&raw const bindings::jiffies) }
    }

    /// Stops the timer. Returns when it would have expired, in seconds from now, unless it was not
    /// pending.
    fn stop(work: &DelayedWork) -> Option<u64> {
        let timer = work.0.timer.get();
        // SAFETY: The timer is initialised, and does not run: it is stopped before it expires.
        let expires = unsafe { (*timer).expires };
        // SAFETY: As above.
        let was_pending = unsafe { bindings::timer_delete(timer) } != 0;
        let now = jiffies();
        // Round to a number of seconds, as time passes.
        let hz = msecs_to_jiffies(1000);
        was_pending.then(|| expires.wrapping_sub(now).wrapping_add(hz / 2) as u64 / hz as u64)
    }

    /// No target exists: work would dereference a dangling pointer.
    #[test]
    fn queue_before_and_after_the_target_has_no_effect() -> Result {
        let source = source()?;
        let work = source.handle();

        work.queue(Delta::from_secs(1000));
        assert_eq!(stop(&work), None);

        // SAFETY: The timer does not expire before the source is dropped.
        unsafe { source.open(NonNull::dangling().as_ptr()) };
        work.queue(Delta::from_secs(1000));
        drop(source);
        assert_eq!(stop(&work), None);
        work.queue(Delta::ZERO);
        assert_eq!(stop(&work), None);
        // SAFETY: The work item is initialised.
        assert!(!unsafe { bindings::cancel_work_sync(work.0.work.get()) });
        Ok(())
    }

    #[test]
    fn a_negative_delay_is_none() -> Result {
        for delay in [Delta::from_secs(-1000), Delta::from_nanos(i64::MIN)] {
            let source = source()?;
            let work = source.handle();
            // SAFETY: The work item is initialised.
            unsafe { bindings::disable_work_sync(work.0.work.get()) };
            // SAFETY: The work does not run, as it is disabled.
            unsafe { source.open(NonNull::dangling().as_ptr()) };

            let before = jiffies();
            work.queue(delay);
            // SAFETY: The timer is initialised, and nothing else changes the time.
            let expires = unsafe { (*work.0.timer.get()).expires };
            assert!(expires.wrapping_sub(before) <= jiffies().wrapping_sub(before));
        }
        Ok(())
    }

    #[test]
    fn the_shortest_delay_counts() -> Result {
        const MAX_DELAY_S: u64 = i32::MAX as u64 / 1000;

        let source = source()?;
        let work = source.handle();
        // SAFETY: The timer is stopped before it expires.
        unsafe { source.open(NonNull::dangling().as_ptr()) };

        for (delays, expected) in [
            ([5000, 9000], 5000),
            ([9000, 5000], 5000),
            ([i64::MAX / 1_000_000_000, i64::MAX], MAX_DELAY_S),
        ] {
            for secs in delays {
                work.queue(Delta::from_secs(secs));
            }
            // The test takes less than a minute.
            let found = stop(&work).ok_or(EINVAL)?;
            assert!((expected - 60..=expected + 60).contains(&found));
        }
        Ok(())
    }
}
