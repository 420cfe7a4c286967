// SPDX-License-Identifier: GPL-2.0

//! Creates one registration of the kind that a parameter names. The exit function drops it while
//! another CPU runs one of its callbacks.
//!
//! ```sh
//! modprobe unload_race kind=1
//! rmmod unload_race                # waits for a callback
//! dmesg                            # unload_race: undone, 1 inside before, 0 after
//! ```
//!
//! User space causes the callbacks of shrinkers and of CPU hotplug, and reads from the target. The
//! module causes the others.

#![forbid(unsafe_code)]

use core::num::NonZeroU16;

use kernel::{
    cpu::CpuId,
    impl_has_work,
    new_mutex,
    new_work,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    time::{
        delay::{
            fsleep,
            udelay, //
        },
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult, //
        },
        dm, //
    },
    iommu::iova::{
        flush_queue::{
            FlushQueue,
            Iotlb, //
        },
        Builder,
        CachedDomain,
        WhenFull, //
    },
    mm::shrinker::{
        self,
        Count,
        Scan,
        ScanControl,
        ShrinkControl,
        Shrinker, //
    },
    percpu::hotplug,
    sync::{
        srcu::{
            new_domain,
            new_pointer,
            Domain,
            Item,
            Normal,
            Pointer, //
        },
        workqueue::{
            Flags,
            Workqueue, //
        }, //
    }, //
};

module! {
    type: UnloadModule,
    name: "unload_race",
    authors: ["The kscale authors"],
    description: "Is unloaded while a callback runs, for tests",
    license: "GPL",
    params: {
        kind: u8 {
            default: 0,
            description: "0 target, 1 shrinker, 2 CPU hotplug, 3 flush queue, 4 SRCU callback, 5 the same in a work item, 6 work queue",
        },
    },
}

/// The module is loaded.
const STAYS: i32 = 0;
/// The exit function waits for a callback.
const WAITS: i32 = 1;
/// The exit function drops the registration.
const GOES: i32 = 2;
/// The registration is dropped.
const GONE: i32 = 3;

static STAGE: Atomic<i32> = Atomic::new(STAYS);

/// The number of running callbacks, and the last CPU that ran one.
static INSIDE: Atomic<i32> = Atomic::new(0);
static CPU: Atomic<u32> = Atomic::new(0);

/// The number of callbacks that started after the registration was dropped.
static LATE: Atomic<i32> = Atomic::new(0);

/// The number of callbacks that this module has caused and that have not ended.
static DUE: Atomic<i32> = Atomic::new(0);

/// The limit of [`DUE`].
const MOST_DUE: i32 = 4;

/// The number and the interval of polls before a wait fails: ten minutes at least.
const LOOKS: usize = 600_000;
const LOOK_US: i64 = 1000;

/// The number and the interval of polls before a callback or a work item returns: 10 seconds at
/// least, or 100 milliseconds if no other task can run on its CPU. The latter is several ticks, and
/// several turns of the host's scheduler, which may run the guest's CPUs one after the other.
const SPINS: usize = 1_000_000;
const SPINS_ALONE: usize = 10_000;
const SPIN_US: i64 = 10;

/// The maximum time that a callback continues while the registration is dropped.
const LATEST_NS: i64 = 900_000;

/// Stays on a CPU until another CPU starts to drop the registration, and up to [`LATEST_NS`]
/// longer.
fn stay(may_sleep: bool) {
    let begin = Instant::<Monotonic>::now();
    let spins = if may_sleep { SPINS } else { SPINS_ALONE };
    for _ in 0..spins {
        if STAGE.load(Relaxed) != WAITS {
            break;
        }
        CPU.store(CpuId::current().as_u32(), Relaxed);
        udelay(Delta::from_micros(SPIN_US));
    }
    let rest = Delta::from_nanos(begin.elapsed().as_nanos() % LATEST_NS);
    if may_sleep {
        fsleep(rest);
    } else {
        udelay(rest);
    }
}

/// Called by each callback. Returns at once unless the module is being unloaded.
fn be_inside(may_sleep: bool) {
    match STAGE.load(Relaxed) {
        STAYS => return,
        GONE => {
            LATE.add(1, Relaxed);
            return;
        }
        _ => (),
    }
    INSIDE.add(1, Relaxed);
    stay(may_sleep);
    INSIDE.add(-1, Relaxed);
}

/// As [`be_inside()`], for callbacks that start before the module is unloaded.
fn be_inside_early() {
    INSIDE.add(1, Relaxed);
    for _ in 0..LOOKS {
        if STAGE.load(Relaxed) != STAYS {
            break;
        }
        fsleep(Delta::from_micros(LOOK_US));
    }
    stay(true);
    INSIDE.add(-1, Relaxed);
}

/// A target whose callbacks continue after they have completed their bio. The target and its module
/// can then be removed.
///
/// Table line: `<start> <len> unload_race <dev path> <clone|end_io>`.
#[pin_data]
struct Target {
    device: dm::DeviceIndex,
    clones: bool,
    #[pin]
    bios: BioSet,
}

#[vtable]
impl dm::Target for Target {
    const NAME: &'static CStr = c"unload_race";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let clones = args.one_of(&[("clone", true), ("end_io", false)], c"unknown name")?;
        let device = builder.get_device(path, 0)?;

        Ok(try_pin_init!(Self {
            device,
            clones,
            bios <- BioSet::new(NonZeroU16::MIN),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let (device, sector) = (self.device, bio.target_sector());
        if !self.clones {
            return bio.remap(device, sector);
        }
        bio.defer(|bio| match bio.share(|target| &target.get_ref().bios) {
            Ok(clone) => clone.submit(device, sector, end_late),
            Err(bio) => bio.end(Err(BlkError::RESOURCE)),
        })
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        let result = bio.result();
        bio.defer(|bio| end_late(bio, result))
    }
}

/// Completes a bio in a task: the test places a target below that does so.
fn end_late(bio: dm::IrqBio<Target>, result: BlkResult) {
    bio.end(result);
    be_inside_early();
}

/// The callbacks of all other kinds.
struct Callee;

#[vtable]
impl shrinker::Callbacks for Callee {
    fn count_objects(&self, _: &ShrinkControl) -> Count {
        be_inside(true);
        Count::new(2)
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        be_inside(true);
        Scan::freed_of(1, control.nr_to_scan())
    }
}

#[vtable]
impl hotplug::Callbacks for Callee {
    fn online(&self, _: CpuId) -> Result {
        be_inside(true);
        Ok(())
    }

    fn offline(&self, _: CpuId) {
        be_inside(true);
    }
}

#[vtable]
impl Iotlb for Callee {
    fn flush_all(&self) {
        be_inside(false);
    }
}

/// A value that an SRCU callback frees.
struct Freed {
    may_sleep: bool,
}

impl Drop for Freed {
    fn drop(&mut self) {
        be_inside(self.may_sleep);
        DUE.add(-1, Relaxed);
    }
}

type Ranges = FlushQueue<CachedDomain, Callee>;

/// Queues a range on the CPU that runs it. Without `ranges`, it is only a callback.
#[pin_data]
struct Task {
    #[pin]
    ranges: Mutex<Option<Arc<Ranges>>>,
    #[pin]
    work: Work<Task>,
}

impl_has_work! {
    impl HasWork<Self> for Task { self.work }
}

impl Task {
    fn new(ranges: Option<Arc<Ranges>>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                ranges <- new_mutex!(ranges),
                work <- new_work!("unload_race::Task"),
            }),
            GFP_KERNEL,
        )
    }
}

impl WorkItem for Task {
    type Pointer = Arc<Task>;

    fn run(this: Arc<Task>) {
        let Some(ranges) = this.ranges.lock().take() else {
            be_inside(true);
            DUE.add(-1, Relaxed);
            return;
        };
        if let Ok(range) = ranges.space().alloc_fast(1, 1023, WhenFull::Fail) {
            // `queue()` accepts it: the range is of this space.
            drop(ranges.queue(range));
        }
        // The timer then expires on this CPU. Those of an idle CPU would expire on the CPU of the
        // exit function, which polls.
        for _ in 0..SPINS_ALONE {
            if STAGE.load(Relaxed) != WAITS || INSIDE.load(Relaxed) > 0 {
                break;
            }
            udelay(Delta::from_micros(SPIN_US));
        }
        DUE.add(-1, Relaxed);
    }
}

/// The registration that the exit function drops, in the order of the fields.
#[expect(dead_code, reason = "most are only dropped")]
enum Registered {
    Target(dm::Registration<Target>),
    Shrinker(shrinker::Registration<Callee>),
    Cpuhp(hotplug::Registration<Callee>),
    FlushQueue(Arc<Ranges>, Workqueue),
    Items(Pin<KBox<Pointer<Freed, Normal>>>),
    Work(Workqueue),
}

impl Registered {
    fn new(kind: u8) -> Result<Self> {
        let callee = Arc::new(Callee, GFP_KERNEL)?;
        let queue = || Workqueue::new(c"unload_race", Flags::UNBOUND, 0);
        Ok(match kind {
            0 => Self::Target(dm::Registration::new(())?),
            1 => {
                let shrinker = Shrinker::new(c"unload_race", shrinker::Flags::NUMA_AWARE)?;
                Self::Shrinker(shrinker.register(callee)?)
            }
            2 => Self::Cpuhp(hotplug::Registration::new(callee)?),
            3 => {
                let domain = Builder::new(PAGE_SIZE, 1)?.build().init_rcaches()?;
                let domain = Arc::new(domain, GFP_KERNEL)?;
                let ranges = FlushQueue::with_timeout(domain, callee, 1)?;
                Self::FlushQueue(Arc::new(ranges, GFP_KERNEL)?, queue()?)
            }
            4 | 5 => {
                let domain: Domain<Normal> = new_domain!()?;
                let item = Item::new(Self::freed(), GFP_KERNEL)?;
                Self::Items(KBox::try_pin_init(new_pointer!(domain, item), GFP_KERNEL)?)
            }
            6 => Self::Work(queue()?),
            _ => return Err(EINVAL),
        })
    }

    fn freed() -> Freed {
        let may_sleep = module_parameters::kind.value() == 5;
        Freed { may_sleep }
    }

    /// Causes a callback, if user space does not.
    fn call(&self) -> Result {
        if DUE.load(Relaxed) >= MOST_DUE {
            return Ok(());
        }
        match self {
            Self::Target(_) | Self::Shrinker(_) | Self::Cpuhp(_) => return Ok(()),
            Self::FlushQueue(ranges, queue) => {
                let _ = queue.enqueue(Task::new(Some(ranges.clone()))?);
            }
            Self::Items(pointer) => {
                let item = Item::new(Self::freed(), GFP_KERNEL)?;
                let retired = pointer.lock().replace(item);
                if module_parameters::kind.value() == 5 {
                    retired.free_in_workqueue();
                } else {
                    retired.free_later();
                }
            }
            Self::Work(queue) => {
                let _ = queue.enqueue(Task::new(None)?);
            }
        }
        DUE.add(1, Relaxed);
        Ok(())
    }

    /// Waits until another CPU runs a callback, and returns the number of running callbacks.
    fn wait_until_inside(&self) -> Result<i32> {
        STAGE.store(WAITS, Relaxed);
        for _ in 0..LOOKS {
            let inside = INSIDE.load(Relaxed);
            // The callback stays there until the stage changes, unless it is preempted.
            if inside > 0 && CPU.load(Relaxed) != CpuId::current().as_u32() {
                return Ok(inside);
            }
            self.call()?;
            let interval = Delta::from_micros(LOOK_US);
            match self {
                // The callback can run on the CPU of this task. An idle CPU takes a task that waits
                // for its CPU, but not a task that sleeps.
                Self::Target(_) => udelay(interval),
                // An idle CPU would take the work item from a CPU that the host does not run yet.
                Self::FlushQueue(..) => udelay(interval),
                _ => fsleep(interval),
            }
        }
        Err(ETIMEDOUT)
    }
}

struct UnloadModule {
    registered: Option<Registered>,
}

impl kernel::Module for UnloadModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        CPU.store(CpuId::current().as_u32(), Relaxed);
        Ok(Self {
            registered: Some(Registered::new(module_parameters::kind.value())?),
        })
    }
}

impl Drop for UnloadModule {
    fn drop(&mut self) {
        let Some(registered) = self.registered.take() else {
            return;
        };
        let before = registered.wait_until_inside();
        STAGE.store(GOES, Relaxed);
        drop(registered);
        let after = INSIDE.load(Relaxed);
        STAGE.store(GONE, Relaxed);
        fsleep(Delta::from_nanos(LATEST_NS));
        let late = LATE.load(Relaxed);
        match before {
            Ok(before) => {
                pr_info!("undone, {before} inside before, {after} after, {late} late\n");
            }
            Err(error) => pr_err!("not called: {error:?}\n"),
        }
    }
}
