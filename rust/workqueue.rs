// SPDX-License-Identifier: GPL-2.0

//! Work queues that keep working when memory is short.
//!
//! The kernel's own system queues may need to start a thread, hence to allocate, before they run
//! an item. Code that memory reclaim waits for, such as the I/O path of a block device, must queue
//! to a [`Workqueue`] instead: each has a rescuer thread of its own (`WQ_MEM_RECLAIM`).
//!
//! For everything else use [`kernel::workqueue`] and its system queues. Not supported: delayed
//! items (their timers would outlive the queue), queues of one's own that run in softirq context
//! (bios have the kernel's, see [`dm::Bio::queue_soft()`](crate::dm::Bio::queue_soft)), attributes.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use kernel::{
    ffi::c_int,
    prelude::*,
    workqueue::RawWorkItem, //
};

use core::{
    ops::BitOr,
    ptr::NonNull, //
};

use crate::bindings;

mod going;

pub(crate) use going::{
    destroy_leaked,
    flush_for,
    init,
    Going, //
};
use going::{
    is_refused,
    Listed, //
};

/// How a [`Workqueue`] picks the CPU and the priority of its workers.
///
/// Combine them with `|`. Exactly one of [`Flags::PERCPU`] and [`Flags::UNBOUND`] is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(bindings::wq_flags);

impl Flags {
    /// Items run on the CPU that queued them.
    pub const PERCPU: Self = Self(bindings::wq_flags_WQ_PERCPU);

    /// Items run wherever the scheduler finds room.
    pub const UNBOUND: Self = Self(bindings::wq_flags_WQ_UNBOUND);

    /// Items run at a high priority (nice level -20).
    pub const HIGHPRI: Self = Self(bindings::wq_flags_WQ_HIGHPRI);

    /// Items of a [`Flags::PERCPU`] queue may burn the CPU without keeping others from starting.
    pub const CPU_INTENSIVE: Self = Self(bindings::wq_flags_WQ_CPU_INTENSIVE);

    /// The queue is in `/sys/bus/workqueue/devices`, where root can change how it works.
    ///
    /// No two of them can have the same name.
    pub const SYSFS: Self = Self(bindings::wq_flags_WQ_SYSFS);

    /// Items wait while the system is suspended.
    pub const FREEZABLE: Self = Self(bindings::wq_flags_WQ_FREEZABLE);

    /// Returns whether all of `flags` are set.
    fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A queue with a rescuer thread (`WQ_MEM_RECLAIM`).
///
/// Dropping it waits for every item that was queued, and so must not happen in one of them.
///
/// One that is leaked stays until this library goes. When a module goes, all queues are waited for
/// that may have items of it; what such an item queues to any of them after the module's exit function
/// has returned, so that it would never end, is leaked, and does not run.
///
/// # Invariants
///
/// `raw` came from a successful `alloc_workqueue_noprof()` and has not been destroyed. It is what
/// `listed` is for, if that is [`Some`].
pub struct Workqueue {
    raw: NonNull<bindings::workqueue_struct>,
    listed: Option<Listed>,
}

// SAFETY: A `workqueue_struct` is not tied to the task that allocated it: `destroy_workqueue()` in
// `kernel/workqueue.c` may be called by any task that can sleep.
unsafe impl Send for Workqueue {}

// SAFETY: The only operation on `&self` is to queue items, and `__queue_work()` in
// `kernel/workqueue.c` takes the locks it needs.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Creates a queue that runs at most `max_active` items at once.
    ///
    /// The bound is per CPU for [`Flags::PERCPU`], and for the whole queue for
    /// [`Flags::UNBOUND`]; 0 stands for the kernel's default. Of `name`, 31 bytes are kept.
    ///
    /// Fails with [`EINVAL`] if `name` is empty, and unless exactly one of [`Flags::PERCPU`] and
    /// [`Flags::UNBOUND`] is given and `max_active` is at most 2048 (`WQ_MAX_ACTIVE`); with
    /// [`ENOMEM`] if the queue or its rescuer thread cannot be created, or [`Flags::SYSFS`] is given
    /// and the name is taken.
    ///
    /// Context: Task. Sleeps.
    pub fn new(name: &CStr, flags: Flags, max_active: u32) -> Result<Self> {
        let mut this = Self::for_library(name, flags, max_active)?;
        // INVARIANT: It is for `raw`.
        this.listed = Some(Listed::new(this.raw)?);
        Ok(this)
    }

    /// As [`new()`](Self::new), for items that are code of the library.
    ///
    /// Nobody waits for them when a module goes.
    pub(crate) fn for_library(name: &CStr, flags: Flags, max_active: u32) -> Result<Self> {
        if name.is_empty()
            || flags.contains(Flags::PERCPU) == flags.contains(Flags::UNBOUND)
            || max_active > bindings::wq_consts_WQ_MAX_ACTIVE
        {
            return Err(EINVAL);
        }
        let max_active = i32::try_from(max_active)?;

        // SAFETY:
        // - The format is a C string that consumes one `char *`.
        // - `name` is a C string, and `alloc_workqueue_va()` in `kernel/workqueue.c` copies it.
        let raw = unsafe {
            bindings::alloc_workqueue_noprof(
                c"%s".as_char_ptr(),
                bindings::wq_flags_WQ_MEM_RECLAIM | flags.0,
                max_active,
                name.as_char_ptr(),
            )
        };

        // INVARIANT: `alloc_workqueue_noprof()` succeeded, as it returns NULL otherwise.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            listed: None,
        })
    }

    /// Queues `item`.
    ///
    /// The output tells whether it was queued already, as for
    /// [`Queue::enqueue`](kernel::workqueue::Queue::enqueue).
    ///
    /// Context: Any but NMI. Never sleeps.
    pub fn enqueue<W, const ID: u64>(&self, item: W) -> W::EnqueueOutput
    where
        W: RawWorkItem<ID> + Send + 'static,
    {
        let queue = self.as_raw();
        let queue_work = move |work| {
            // SAFETY: The item is valid for as long as this runs, by the guarantees of
            // `__enqueue()`, which calls it.
            if unsafe { is_refused(work) } {
                // As if it never came to run.
                return true;
            }
            // SAFETY: As above, and until C calls its function if this returns `true`. By the type
            // invariants `queue` is a queue, and it is destroyed only by `drop`, hence not before the
            // borrow of `self` ends.
            // CAST: To the type that it is declared with in C.
            unsafe {
                bindings::queue_work_on(
                    bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
                    queue,
                    work,
                )
            }
        };
        // SAFETY:
        // - That returns `false` only if C does, whose item is queued already.
        // - `W` is `Send` and `'static`, so it may be called at any time, by any task, or never.
        unsafe { item.__enqueue(queue_work) }
    }

    /// Returns the C queue, which is valid for as long as `self` lives.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.raw.as_ptr()
    }
}

impl Drop for Workqueue {
    /// Runs what is queued, then frees the queue.
    ///
    /// Waiting is what makes it safe to unload the code of the items afterwards.
    fn drop(&mut self) {
        // Before it is destroyed.
        drop(self.listed.take());
        // SAFETY: By the type invariants `raw` is a queue that has not been destroyed, and nobody
        // queues to it any more, as `&mut self` is the last reference.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_workqueue)]
mod tests {
    use super::*;
    use kernel::{
        impl_has_work,
        new_work,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        },
        workqueue::{
            Work,
            WorkItem, //
        }, //
    };

    #[pin_data]
    struct Counter {
        runs: Atomic<u32>,
        #[pin]
        work: Work<Counter>,
    }

    impl_has_work! {
        impl HasWork<Self> for Counter { self.work }
    }

    impl WorkItem for Counter {
        type Pointer = Arc<Counter>;

        fn run(this: Arc<Counter>) {
            this.runs.add(1, Relaxed);
        }
    }

    fn counter() -> Result<Arc<Counter>> {
        Arc::pin_init(
            pin_init!(Counter {
                runs: Atomic::new(0),
                work <- new_work!("kscale_workqueue::Counter"),
            }),
            GFP_KERNEL,
        )
    }

    #[test]
    fn drop_runs_what_is_queued() -> Result {
        for flags in [Flags::PERCPU, Flags::UNBOUND | Flags::HIGHPRI] {
            let queue = Workqueue::new(c"kscale_kunit", flags, 1)?;
            let counters = [counter()?, counter()?, counter()?];

            for counter in &counters {
                assert!(queue.enqueue(counter.clone()).is_ok());
            }
            drop(queue);

            for counter in &counters {
                assert_eq!(counter.runs.load(Relaxed), 1);
            }
        }
        Ok(())
    }

    #[test]
    fn placement_must_be_one_of_two() {
        for flags in [
            Flags::HIGHPRI,
            Flags::PERCPU | Flags::UNBOUND,
            Flags::PERCPU | Flags::UNBOUND | Flags::CPU_INTENSIVE,
        ] {
            assert_eq!(
                Workqueue::new(c"kscale_kunit", flags, 1).err(),
                Some(EINVAL)
            );
        }
    }

    #[test]
    fn name_in_sysfs_is_taken_until_drop() -> Result {
        let flags = Flags::UNBOUND | Flags::SYSFS;

        for _ in 0..2 {
            let _queue = Workqueue::new(c"kscale_kunit_sysfs", flags, 1)?;
        }
        Ok(())
    }

    #[test]
    fn a_queue_has_a_name() {
        for flags in [Flags::UNBOUND, Flags::PERCPU | Flags::SYSFS] {
            assert_eq!(Workqueue::new(c"", flags, 1).err(), Some(EINVAL));
        }
    }

    #[test]
    fn max_active_is_bounded() -> Result {
        assert!(Workqueue::new(c"kscale_kunit", Flags::PERCPU, 2048).is_ok());
        for max_active in [2049, u32::MAX] {
            let queue = Workqueue::new(c"kscale_kunit", Flags::PERCPU, max_active);
            assert_eq!(queue.err(), Some(EINVAL));
        }
        Ok(())
    }

    #[test]
    fn long_name_is_cut() {
        let name = c"a_name_that_is_longer_than_the_31_bytes_the_kernel_keeps";
        assert!(Workqueue::new(name, Flags::UNBOUND, 0).is_ok());
    }
}
