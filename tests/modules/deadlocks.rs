// SPDX-License-Identifier: GPL-2.0

//! Contains deadlocks, to test that lockdep reports them. The parameter `what` selects one.
//!
//! Most of them do not hang the loading task: lockdep reports a lock order that may deadlock with
//! another task.

#![forbid(unsafe_code)]

use kernel::{
    cpu::CpuId,
    impl_has_hr_timer,
    impl_has_work,
    new_mutex,
    new_spinlock,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        ArcBorrow,
        Mutex, //
    },
    time::{
        delay::fsleep,
        hrtimer::{
            HrTimer,
            HrTimerCallback,
            HrTimerCallbackContext,
            HrTimerPointer,
            HrTimerRestart,
            RelativeMode, //
        },
        Delta,
        Monotonic, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    mm::{
        gfp::Gfp,
        list_lru::{
            Item,
            ListLru,
            Status, //
        },
        shrinker::{
            self,
            Count,
            Scan,
            ScanControl,
            ShrinkControl,
            Shrinker, //
        },
        slab, //
    },
    percpu::hotplug,
    sync::{
        rcu_list::{
            new_list,
            List, //
        },
        rwsem::new_rwsem,
        srcu::{
            new_domain,
            Domain,
            Normal, //
        },
        workqueue::{
            Flags,
            Workqueue, //
        }, //
    }, //
};

module! {
    type: DeadlocksModule,
    name: "deadlocks",
    authors: ["The kscale authors"],
    description: "Deadlocks, for tests of lockdep",
    license: "GPL",
    params: {
        what: u8 {
            default: 0,
            description: "Deadlock: 0 SRCU, 1 SRCU with a lock, 2 reclaim, 3 CPU hotplug, 4 reads, 5 work item, 6 flush queue, 7 LRU list in an interrupt, 8 two semaphores, 9 work item with a lock, 10 LRU list with a lock, 11 RCU list with a lock",
        },
    },
}

/// A lock that SRCU readers and the shrinker acquire.
#[pin_data]
struct Locked {
    #[pin]
    lock: Mutex<()>,
}

impl Locked {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(pin_init!(Self { lock <- new_mutex!(()) }), GFP_KERNEL)
    }
}

/// Waits for a grace period inside a read-side critical section.
fn wait_in_guard() -> Result {
    let domain: Domain<Normal> = new_domain!()?;
    let _guard = domain.read_lock();
    domain.synchronize();
    Ok(())
}

/// Waits for a grace period under a lock that a reader acquires.
fn wait_with_lock_of_reader() -> Result {
    let domain: Domain<Normal> = new_domain!()?;
    let locked = Locked::new()?;

    let reader = domain.read_lock();
    drop(locked.lock.lock());
    drop(reader);

    let _held = locked.lock.lock();
    domain.synchronize();
    Ok(())
}

#[vtable]
impl shrinker::Callbacks for Locked {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        drop(self.lock.lock());
        Count::new(1)
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        Scan::freed_of(1, control.nr_to_scan())
    }
}

/// Allocates memory under a lock that a shrinker acquires.
fn lock_in_reclaim() -> Result<shrinker::Registration<Locked>> {
    let locked = Locked::new()?;
    let shrinker = Shrinker::new(c"deadlocks", shrinker::Flags::NONE)?.register(locked.clone())?;

    let held = locked.lock.lock();
    drop(KBox::new(0, GFP_KERNEL)?);
    drop(held);
    Ok(shrinker)
}

/// Hotplug callbacks that acquire the CPU hotplug lock.
struct CpuCallbacks;

#[vtable]
impl hotplug::Callbacks for CpuCallbacks {
    fn online(&self, _: CpuId) -> Result {
        drop(slab::Cache::<u64>::new(c"deadlocks")?);
        Ok(())
    }
}

/// Acquires a semaphore for reading twice. A writer may start to wait in between.
fn read_twice() -> Result {
    let value = KBox::pin_init(new_rwsem!(0_u32), GFP_KERNEL)?;
    let first = value.read();
    let second = value.read();
    pr_info!("read {} and {}\n", *first, *second);
    Ok(())
}

/// Acquires two semaphores in both orders. Another task may do so in between.
fn write_in_two_orders() -> Result {
    let one = KBox::pin_init(new_rwsem!(0_u32), GFP_KERNEL)?;
    let two = KBox::pin_init(new_rwsem!(0_u32), GFP_KERNEL)?;

    let outer = one.write();
    *two.write() += *outer;
    drop(outer);

    let outer = two.write();
    *one.write() += *outer;
    Ok(())
}

/// A work item that owns the last reference to its queue.
#[pin_data]
struct Last {
    #[pin]
    queue: Mutex<Option<Arc<Workqueue>>>,
    #[pin]
    work: Work<Last>,
}

impl_has_work! {
    impl HasWork<Self> for Last { self.work }
}

impl WorkItem for Last {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        let queue = this.queue.lock().take();
        drop(queue);
    }
}

fn drop_queue_in_item() -> Result {
    let queue = Arc::new(Workqueue::new(c"deadlocks", Flags::UNBOUND, 0)?, GFP_KERNEL)?;
    let last = Arc::pin_init(
        pin_init!(Last {
            queue <- new_mutex!(None),
            work <- new_work!("deadlocks::Last"),
        }),
        GFP_KERNEL,
    )?;
    // The item waits for this lock until its reference is the last one.
    let mut theirs = last.queue.lock();
    let _ = queue.enqueue(last.clone());
    *theirs = Some(queue);
    Ok(())
}

/// A work item that acquires a lock.
#[pin_data]
struct Acquiring {
    locked: Arc<Locked>,
    has_run: Atomic<bool>,
    #[pin]
    work: Work<Acquiring>,
}

impl_has_work! {
    impl HasWork<Self> for Acquiring { self.work }
}

impl WorkItem for Acquiring {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        drop(this.locked.lock.lock());
        this.has_run.store(true, Relaxed);
    }
}

/// Drops a queue under a lock that an item acquires.
fn drop_queue_with_lock_of_item() -> Result {
    let queue = Workqueue::new(c"deadlocks", Flags::UNBOUND, 0)?;
    let locked = Locked::new()?;
    let theirs = locked.clone();
    let item = Arc::pin_init(
        pin_init!(Acquiring {
            locked: theirs,
            has_run: Atomic::new(false),
            work <- new_work!("deadlocks::Acquiring"),
        }),
        GFP_KERNEL,
    )?;
    let _ = queue.enqueue(item.clone());
    while !item.has_run.load(Relaxed) {
        fsleep(Delta::from_millis(1));
    }

    let _held = locked.lock.lock();
    drop(queue);
    Ok(())
}

/// A timer that removes an item from its list.
#[pin_data]
struct Timed {
    item: Item<u32>,
    has_run: Atomic<bool>,
    #[pin]
    timer: HrTimer<Timed>,
}

impl_has_hr_timer! {
    impl HasHrTimer<Self> for Timed {
        mode: RelativeMode<Monotonic>, field: self.timer
    }
}

impl HrTimerCallback for Timed {
    type Pointer<'a> = Arc<Self>;

    fn run(this: ArcBorrow<'_, Self>, _: HrTimerCallbackContext<'_, Self>) -> HrTimerRestart {
        this.item.del();
        this.has_run.store(true, Relaxed);
        HrTimerRestart::NoRestart
    }
}

/// Uses a list in an interrupt, and in this task with interrupts enabled.
fn use_list_in_interrupt() -> Result {
    let shrinker = Shrinker::new(c"deadlocks", shrinker::Flags::NUMA_AWARE)?;
    let lists = ListLru::new(c"deadlocks", &shrinker)?;
    let item = lists.alloc(1, Gfp::KERNEL)?;
    item.add();
    let timed = Arc::pin_init(
        pin_init!(Timed {
            item,
            has_run: Atomic::new(false),
            timer <- HrTimer::new(),
        }),
        GFP_KERNEL,
    )?;

    let started = HrTimerPointer::start(timed.clone(), Delta::from_millis(1));
    while !timed.has_run.load(Relaxed) {
        fsleep(Delta::from_millis(1));
    }
    drop(started);
    Ok(())
}

/// Removes an item under a lock that the callback of a walk acquires.
fn use_list_with_lock_of_walk() -> Result {
    let shrinker = Shrinker::new(c"deadlocks", shrinker::Flags::NUMA_AWARE)?;
    let lists = ListLru::new(c"deadlocks", &shrinker)?;
    let item = lists.alloc(1, Gfp::KERNEL)?;
    item.add();
    let lock = KBox::pin_init(new_spinlock!(()), GFP_KERNEL)?;
    let isolated = lists.walk(1, |_| {
        drop(lock.lock());
        Status::Skip
    });
    drop(isolated);

    let _held = lock.lock();
    item.del();
    Ok(())
}

/// Removes a value under a lock that a walk acquires.
fn remove_with_lock_of_walk() -> Result {
    let list = KBox::pin_init(new_list!(), GFP_KERNEL)?;
    let list: &List<u32> = &list;
    let locked = Locked::new()?;
    let one = list.push_front(1, GFP_KERNEL)?;
    list.for_each(|_| drop(locked.lock.lock()));

    let _held = locked.lock.lock();
    list.remove(one).map(drop).map_err(|_| EINVAL)
}

#[cfg(CONFIG_IOMMU_IOVA)]
mod flush_queue {
    use super::*;

    use kernel::{
        page::PAGE_SIZE,
        sync::SetOnce, //
    };

    use kscale::iommu::iova::{
        flush_queue::{
            FlushQueue,
            Iotlb, //
        },
        Builder,
        CachedDomain,
        WhenFull, //
    };

    /// The timeout of the queue: longer than the test.
    const NEVER_MS: u32 = 3_600_000;

    type Queue = FlushQueue<CachedDomain, QueryingIotlb>;

    /// Callbacks that use their own flush queue.
    struct QueryingIotlb(SetOnce<Arc<Queue>>);

    #[vtable]
    impl Iotlb for QueryingIotlb {
        fn flush_all(&self) {
            if let Some(queue) = self.0.as_ref() {
                queue.queued();
            }
        }
    }

    pub(super) fn query_in_flush() -> Result {
        let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
        let iotlb = Arc::new(QueryingIotlb(SetOnce::new()), GFP_KERNEL)?;
        // A flush by the timer holds no lock, so the timeout is long.
        let queue = Queue::with_timeout(Arc::new(domain, GFP_KERNEL)?, iotlb.clone(), NEVER_MS)?;
        let queue = Arc::new(queue, GFP_KERNEL)?;
        iotlb.0.populate(queue.clone());

        // More than the rings of all CPUs can hold.
        for _ in 0..10_000 {
            let range = queue.space().alloc_fast(1, 0xf_ffff, WhenFull::Fail)?;
            drop(queue.queue(range));
        }
        Ok(())
    }
}

#[cfg(not(CONFIG_IOMMU_IOVA))]
mod flush_queue {
    use super::*;

    pub(super) fn query_in_flush() -> Result {
        Err(EINVAL)
    }
}

/// The registration that must exist until the report.
#[expect(dead_code, reason = "is only dropped")]
enum DeadlocksModule {
    Nothing,
    Shrinker(shrinker::Registration<Locked>),
    Cpuhp(hotplug::Registration<CpuCallbacks>),
}

impl kernel::Module for DeadlocksModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        match module_parameters::what.value() {
            0 => wait_in_guard()?,
            1 => wait_with_lock_of_reader()?,
            2 => return Ok(Self::Shrinker(lock_in_reclaim()?)),
            3 => {
                let callbacks = Arc::new(CpuCallbacks, GFP_KERNEL)?;
                return Ok(Self::Cpuhp(hotplug::Registration::new(callbacks)?));
            }
            4 => read_twice()?,
            5 => drop_queue_in_item()?,
            6 => flush_queue::query_in_flush()?,
            7 => use_list_in_interrupt()?,
            8 => write_in_two_orders()?,
            9 => drop_queue_with_lock_of_item()?,
            10 => use_list_with_lock_of_walk()?,
            11 => remove_with_lock_of_walk()?,
            _ => return Err(EINVAL),
        }
        Ok(Self::Nothing)
    }
}
