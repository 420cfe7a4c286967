// SPDX-License-Identifier: GPL-2.0

//! Work queues that make progress under memory pressure.
//!
//! The kernel's system queues may have to create a thread, and so allocate, before they run an
//! item. Code that memory reclaim waits for, for example the I/O path of a block device, must queue
//! to a [`Workqueue`] instead. Each [`Workqueue`] has its own rescuer thread (`WQ_MEM_RECLAIM`).
//!
//! For all other code use [`kernel::workqueue`] and its system queues. It has no function that
//! allocates a queue. The items of a [`Workqueue`] are those of [`kernel::workqueue`].
//!
//! The library's own items, of bios, sorted writes and SRCU callbacks, are plain `work_struct`s:
//! their functions must be code of the library, which outlives all modules. The function of a
//! [`Work`](kernel::workqueue::Work) is code of the module that uses the type.
//!
//! Not supported:
//!
//! - delayed items: their timers would outlive the queue. A device-mapper target has
//!   [`DelayedWork`](crate::block::dm::DelayedWork);
//! - softirq queues: bios use the kernel's, see
//!   [`Bio::queue_bh()`](crate::block::dm::Bio::queue_bh);
//! - attributes.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use kernel::{
    ffi::c_int,
    prelude::*, //
};

use core::{
    ops::BitOr,
    ptr::NonNull, //
};

use crate::bindings;

mod going;
mod item;
mod queues;
#[cfg(kscale_kunit)]
mod testing;

use item::{
    drop_item,
    DropItem, //
};
use queues::ListEntry;

pub use item::ItemPointer;

pub(crate) use going::Going;
pub(crate) use queues::{
    destroy_leaked,
    flush_for,
    init,
    is_user, //
};

/// The flags of a [`Workqueue`]: the CPU and the priority of its workers.
///
/// Combine them with `|`. Exactly one of [`Flags::PERCPU`] and [`Flags::UNBOUND`] is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(bindings::wq_flags);

impl Flags {
    /// An item runs on the CPU that queued it (`WQ_PERCPU`).
    pub const PERCPU: Self = Self(bindings::wq_flags_WQ_PERCPU);

    /// An item runs on any CPU, as the scheduler decides (`WQ_UNBOUND`).
    pub const UNBOUND: Self = Self(bindings::wq_flags_WQ_UNBOUND);

    /// Items run at nice level -20 (`WQ_HIGHPRI`).
    pub const HIGHPRI: Self = Self(bindings::wq_flags_WQ_HIGHPRI);

    /// Running items of a [`Flags::PERCPU`] queue do not delay other items (`WQ_CPU_INTENSIVE`).
    pub const CPU_INTENSIVE: Self = Self(bindings::wq_flags_WQ_CPU_INTENSIVE);

    /// The queue is in `/sys/bus/workqueue/devices`, where root can change attributes (`WQ_SYSFS`).
    ///
    /// The names of such queues are unique, and not those of files in sysfs, such as `uevent`.
    pub const SYSFS: Self = Self(bindings::wq_flags_WQ_SYSFS);

    /// The items run one at a time, in FIFO order (`__WQ_ORDERED`). Needs [`Flags::UNBOUND`] and a
    /// bound of 1.
    const ORDERED: Self = Self(bindings::wq_flags___WQ_ORDERED);

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
/// Dropping the queue waits for all queued items, so an item must not drop its own queue
/// (deadlock).
///
/// A leaked queue stays until this library is unloaded. When a module is unloaded, all queues that
/// may have items of this module are flushed. An item could queue itself again forever. So when the
/// exit function of the module has returned, nothing else is left to end, and items were queued in
/// 30 more flushes, work items and interrupts cannot queue its items any more: the library drops
/// such an item, and does not run it.
///
/// # Invariants
///
/// `raw` came from a successful `alloc_workqueue_noprof()` and has not been destroyed. If
/// `list_entry` is [`Some`], it lists `raw`.
pub struct Workqueue {
    raw: NonNull<bindings::workqueue_struct>,
    list_entry: Option<ListEntry>,
}

// SAFETY: A `workqueue_struct` is not tied to the task that allocated it: any task that can sleep
// may call `destroy_workqueue()` in `kernel/workqueue.c`.
unsafe impl Send for Workqueue {}

// SAFETY: The only operation on `&self` queues items, and `__queue_work()` in `kernel/workqueue.c`
// takes the locks that it needs.
unsafe impl Sync for Workqueue {}

impl Workqueue {
    /// Creates a queue that runs at most `max_active` items at once.
    ///
    /// The bound is per CPU for [`Flags::PERCPU`], and for the whole queue for [`Flags::UNBOUND`].
    /// 0 selects the kernel's default. The kernel keeps the first 31 bytes of `name`.
    ///
    /// Fails with [`EINVAL`] if `name` is empty, if not exactly one of [`Flags::PERCPU`] and
    /// [`Flags::UNBOUND`] is set, or if `max_active` is more than 2048 (`WQ_MAX_ACTIVE`). Fails
    /// with [`ENOMEM`] if the queue or its rescuer thread cannot be created, or if [`Flags::SYSFS`]
    /// is set and the name is in use.
    ///
    /// Context: Process context. May sleep. C: `alloc_workqueue()` in `include/linux/workqueue.h`.
    pub fn new(name: &CStr, flags: Flags, max_active: u32) -> Result<Self> {
        let mut this = Self::for_library(name, flags, max_active)?;
        // INVARIANT: `list_entry` lists `raw`.
        this.list_entry = Some(ListEntry::new(this.raw)?);
        Ok(this)
    }

    /// Creates a queue that runs its items one at a time, in the order in which they were queued.
    ///
    /// The scheduler chooses the CPU of an item. The kernel keeps the first 31 bytes of `name`.
    ///
    /// Fails with [`EINVAL`] if `name` is empty. Fails with [`ENOMEM`] if the queue or its rescuer
    /// thread cannot be created.
    ///
    /// Context: Process context. May sleep. C: `alloc_ordered_workqueue()` in
    /// `include/linux/workqueue.h`.
    pub fn ordered(name: &CStr) -> Result<Self> {
        Self::new(name, Flags::UNBOUND | Flags::ORDERED, 1)
    }

    /// As [`new()`](Self::new), for items whose code is in the library.
    ///
    /// The queue is not flushed when a module is unloaded.
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

        // INVARIANT: `alloc_workqueue_noprof()` returns NULL on failure, so it has succeeded.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            list_entry: None,
        })
    }

    /// Queues `item`, which the calling module must have created.
    ///
    /// An item has a pointer to a function of the module that created it, which may be gone. So an
    /// item of another module is not queued, with a line in the log. That module may have a
    /// function that queues it.
    ///
    /// Fails with `item` if it is already queued, or if another module created it. A [`KBox`] is
    /// never already queued.
    ///
    /// Context: Any context except NMI. Never sleeps. C: `queue_work()` in
    /// `include/linux/workqueue.h`.
    pub fn enqueue<W, const ID: u64>(&self, item: W) -> Result<(), W>
    where
        W: ItemPointer<ID> + Send + 'static,
    {
        let queue = self.as_raw();
        // If the calling module created the item, it has this function, which is code of the
        // module.
        let own = W::run as *const () as usize;
        if let Some(entry) = &self.list_entry {
            entry.add_function(own);
        }

        let mut rejected = None;
        let queue_item = |work| {
            // SAFETY:
            // - The item is valid while this closure runs, by the guarantees of `__enqueue()`,
            //   which calls it. As this returns `true`, it is then valid until it runs, and it
            //   never runs if it is refused.
            // - `drop_item()` is that of the type. `W` is `Send` and `'static`, so any task may
            //   drop it.
            // - By the type invariants `queue` is a queue. Only `drop` destroys it, hence not
            //   before the borrow of `self` ends.
            let is_queued = unsafe { queue_work(queue, work, own, drop_item::<W, ID>) };
            if !is_queued {
                rejected = Some(work);
            }
            true
        };
        // SAFETY:
        // - The closure never returns `false`.
        // - `W` is `Send` and `'static`, so any task may run the item at any time, or never.
        let _ = unsafe { item.__enqueue(queue_item) };
        match rejected {
            // SAFETY: It is from `__enqueue()`, whose closure has returned `true`. No queue owns
            // the pointer that this has given up, and this is the only call for it.
            Some(work) => Err(unsafe { W::from_work(work) }),
            None => Ok(()),
        }
    }

    /// Returns the C queue, which is valid while `self` lives.
    #[inline]
    pub(crate) fn as_raw(&self) -> *mut bindings::workqueue_struct {
        self.raw.as_ptr()
    }
}

/// Queues an item whose function must be at `own`, or refuses it, and returns whether either was
/// done.
///
/// # Safety
///
/// - `queue` must be a queue until this returns.
/// - `work` must be valid and initialised. If this returns `true`, it must be valid until it runs,
///   or is dropped.
/// - It must then be sound to call `drop` with it in process context, from any task.
#[inline]
unsafe fn queue_work(
    queue: *mut bindings::workqueue_struct,
    work: *mut bindings::work_struct,
    own: usize,
    drop: DropItem,
) -> bool {
    // SAFETY: By the safety requirements.
    if unsafe { going::is_foreign(work, own) } {
        return false;
    }
    // SAFETY: By the safety requirements.
    if let Some(is_refused) = unsafe { going::refuse(work, own, drop) } {
        // Report the item as queued, or as already queued.
        return is_refused;
    }
    // SAFETY: By the safety requirements. CAST: To the type of the C declaration.
    unsafe {
        bindings::queue_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            queue,
            work,
        )
    }
}

impl Drop for Workqueue {
    /// Runs all queued items, then frees the queue.
    ///
    /// The wait makes it safe to unload the code of the items afterwards.
    fn drop(&mut self) {
        // While the queue is listed: another task may unload the module of an item meanwhile, and
        // then waits for the item, too.
        //
        // SAFETY: By the type invariants `raw` is a queue that has not been destroyed. `&mut self`
        // is the last reference, so only its items queue to it.
        unsafe { bindings::drain_workqueue(self.raw.as_ptr()) };
        // The queue has no items. Unlist it before it is destroyed.
        drop(self.list_entry.take());
        // SAFETY: By the type invariants `raw` is a queue that has not been destroyed. `&mut self`
        // is the last reference, so nothing queues to it any more.
        unsafe { bindings::destroy_workqueue(self.raw.as_ptr()) };
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(kscale_workqueue)]
mod tests {
    use super::*;

    use crate::{
        mm::shrinker::as_in_reclaim,
        percpu::preempt_disable,
        testing::leak::run_concurrently, //
    };

    use kernel::{
        cpu::CpuId,
        impl_has_work,
        new_work,
        sync::{
            atomic::{
                Atomic,
                Relaxed, //
            },
            Arc, //
        },
        time::{
            delay::fsleep,
            Delta, //
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
    fn drop_runs_queued_items() -> Result {
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
    fn flags_require_percpu_or_unbound() {
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
    fn sysfs_name_is_free_after_drop() -> Result {
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

    /// Returns whether the kernel has warned since boot.
    fn has_warned() -> bool {
        // SAFETY: The helper reads a word of the kernel. CAST: The constant is 9.
        unsafe { bindings::test_taint(bindings::TAINT_WARN) != 0 }
    }

    /// Sleeps, and records the conditions under which it runs.
    #[pin_data]
    struct Probe {
        /// The number of running probes, shared by probes that run at once.
        running: Arc<Atomic<u32>>,
        /// The number of running probes to wait for.
        wanted: u32,
        most: Atomic<u32>,
        cpu: Atomic<u32>,
        nice: Atomic<i32>,
        #[pin]
        work: Work<Probe>,
    }

    impl_has_work! {
        impl HasWork<Self> for Probe { self.work }
    }

    impl WorkItem for Probe {
        type Pointer = Arc<Probe>;

        fn run(this: Arc<Probe>) {
            // SAFETY: The current task exists, and does not change its priority.
            let prio = unsafe { (*bindings::get_current()).static_prio };
            this.nice.store(prio - 120, Relaxed);
            this.cpu.store(CpuId::current().as_u32(), Relaxed);

            let mut most = this.running.fetch_add(1, Relaxed) + 1;
            for round in 0..10_000 {
                fsleep(Delta::from_millis(1));
                most = most.max(this.running.load(Relaxed));
                // Leave time for further probes to start.
                if most >= this.wanted && round >= 5 {
                    break;
                }
            }
            this.most.store(most, Relaxed);
            if this.wanted > 1 {
                // The other probes need time to see the number, too.
                fsleep(Delta::from_millis(20));
            }
            this.running.fetch_sub(1, Relaxed);
        }
    }

    fn probe(running: &Arc<Atomic<u32>>, wanted: u32) -> Result<Arc<Probe>> {
        Arc::pin_init(
            pin_init!(Probe {
                running: running.clone(),
                wanted,
                most: Atomic::new(0),
                cpu: Atomic::new(u32::MAX),
                nice: Atomic::new(0),
                work <- new_work!("kscale_workqueue::Probe"),
            }),
            GFP_KERNEL,
        )
    }

    #[test]
    fn max_active_items_run_concurrently() -> Result {
        for flags in [Flags::PERCPU, Flags::UNBOUND] {
            for max_active in [1, 2] {
                let queue = Workqueue::new(c"kscale_kunit", flags, max_active)?;
                let running = Arc::new(Atomic::new(0), GFP_KERNEL)?;
                let probes = [
                    probe(&running, max_active)?,
                    probe(&running, max_active)?,
                    probe(&running, 1)?,
                    probe(&running, 1)?,
                ];

                // On one CPU: the bound is per CPU.
                let preemption = preempt_disable();
                let queued = probes
                    .iter()
                    .filter(|it| queue.enqueue((*it).clone()).is_ok());
                let queued = queued.count();
                drop(preemption);
                drop(queue);

                assert_eq!(queued, probes.len());
                let most = probes.iter().map(|probe| probe.most.load(Relaxed)).max();
                assert_eq!(most, Some(max_active));
            }
        }
        Ok(())
    }

    /// Fails with [`EINVAL`] if items do not run as the flags of their queue require.
    fn check_flags(_: usize) -> Result {
        // Flags, nice level, whether the item runs on the CPU that queued it.
        let rows = [
            (Flags::PERCPU, 0, true),
            (Flags::PERCPU | Flags::CPU_INTENSIVE, 0, true),
            (Flags::PERCPU | Flags::HIGHPRI, -20, true),
            (Flags::UNBOUND, 0, false),
            (Flags::UNBOUND | Flags::HIGHPRI, -20, false),
        ];
        let running = Arc::new(Atomic::new(0), GFP_KERNEL)?;

        for (flags, nice, is_here) in rows {
            // On a busy host a rescuer may run the item, with nice level -20. Then another item is
            // queued.
            let mut tries = 100;
            loop {
                let queue = Workqueue::new(c"kscale_kunit", flags, 0)?;
                let probe = probe(&running, 1)?;
                let preemption = preempt_disable();
                let cpu = CpuId::current().as_u32();
                let is_queued = queue.enqueue(probe.clone()).is_ok();
                drop(preemption);
                drop(queue);

                let found = probe.nice.load(Relaxed);
                if found == -20 && nice != -20 && tries > 0 {
                    tries -= 1;
                    continue;
                }
                let is_on_cpu = !is_here || probe.cpu.load(Relaxed) == cpu;
                if !is_queued || found != nice || !is_on_cpu {
                    return Err(EINVAL);
                }
                break;
            }
        }
        Ok(())
    }

    #[test]
    fn flags_say_how_items_run() -> Result {
        // Several tasks, most likely on all CPUs.
        run_concurrently(8, check_flags)
    }

    /// In reclaim the kernel warns of a flush of a queue without `WQ_MEM_RECLAIM`.
    #[test]
    fn mem_reclaim_queue_can_be_flushed_in_reclaim() -> Result {
        let had_warned = has_warned();

        for new in [Workqueue::new, Workqueue::for_library] {
            let queue = new(c"kscale_kunit", Flags::UNBOUND, 1)?;
            let running = Arc::new(Atomic::new(0), GFP_KERNEL)?;
            assert!(queue.enqueue(probe(&running, 1)?).is_ok());
            // SAFETY: The queue exists.
            as_in_reclaim(|| unsafe { bindings::__flush_workqueue(queue.as_raw()) });
        }

        assert_eq!(has_warned(), had_warned);
        Ok(())
    }

    /// Takes a turn at the end of its run.
    #[pin_data]
    struct Turn {
        run_ms: i64,
        next: Arc<Atomic<u32>>,
        turn: Atomic<u32>,
        #[pin]
        work: Work<Turn>,
    }

    impl_has_work! {
        impl HasWork<Self> for Turn { self.work }
    }

    impl WorkItem for Turn {
        type Pointer = Arc<Turn>;

        fn run(this: Arc<Turn>) {
            fsleep(Delta::from_millis(this.run_ms));
            this.turn.store(this.next.fetch_add(1, Relaxed), Relaxed);
        }
    }

    #[test]
    fn items_of_an_ordered_queue_run_in_their_order() -> Result {
        let queue = Workqueue::ordered(c"kscale_kunit")?;
        let next = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        let mut items = KVec::new();

        // If they ran at once, the last would end first.
        for run_ms in [40, 20, 10, 0] {
            let next = next.clone();
            let item = pin_init!(Turn {
                run_ms,
                next,
                turn: Atomic::new(u32::MAX),
                work <- new_work!("kscale_workqueue::Turn"),
            });
            items.push(Arc::pin_init(item, GFP_KERNEL)?, GFP_KERNEL)?;
        }
        let queued = items
            .iter()
            .filter(|it| queue.enqueue((*it).clone()).is_ok());
        assert_eq!(queued.count(), 4);
        drop(queue);

        assert!(items.iter().map(|it| it.turn.load(Relaxed)).eq(0..4));
        assert_eq!(Workqueue::ordered(c"").err(), Some(EINVAL));
        Ok(())
    }

    #[test]
    fn pending_item_is_not_queued_again() -> Result {
        let queue = Workqueue::new(c"kscale_kunit", Flags::UNBOUND, 1)?;
        let running = Arc::new(Atomic::new(0), GFP_KERNEL)?;
        // The first probe waits until a second task runs.
        let (first, second) = (probe(&running, 2)?, probe(&running, 1)?);

        assert!(queue.enqueue(first.clone()).is_ok());
        while running.load(Relaxed) == 0 {
            fsleep(Delta::from_millis(1));
        }
        // The second item waits behind the first.
        assert!(queue.enqueue(second.clone()).is_ok());
        assert!(queue.enqueue(second.clone()).is_err());
        running.add(1, Relaxed);
        drop(queue);
        assert!(Arc::into_unique_or_drop(first).is_some());
        assert!(Arc::into_unique_or_drop(second).is_some());
        Ok(())
    }
}
