// SPDX-License-Identifier: GPL-2.0

//! Leaks values when it is unloaded, to test how the library cleans them up.

#![forbid(unsafe_code)]

use kernel::{
    cpu::CpuId,
    fmt,
    fs,
    impl_has_work,
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    new_mutex,
    new_work,
    prelude::*,
    str::CString,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
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

use core::{
    mem::{
        forget,
        ManuallyDrop, //
    },
    num::NonZeroU16, //
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
    lib::debugfs::{
        Dir,
        File,
        Files, //
    },
    percpu::hotplug,
    sync::{
        srcu::{
            new_domain,
            new_pointer,
            Domain,
            Item,
            Normal,
            OwnedDownGuard,
            Pointer, //
        },
        workqueue::{
            Flags,
            Workqueue, //
        }, //
    },
    testing::leak, //
};

module! {
    type: GoingModule,
    name: "going_probe",
    authors: ["The kscale authors"],
    description: "Leaves things to the library when it goes, for tests",
    license: "GPL",
    params: {
        value: i32 {
            default: 0,
            description: "1: its destructor leaks a registration, 2: drops that of a target, 3: is late, 4: is later and queues an item, 5: as 4, while the data of a registration makes too many",
        },
        queue: u8 {
            default: 0,
            description: "Leak a work queue, 1: with an item, 2: with one that queues itself again, 3: and registers, 4: and passes a value on, 5: as 3, with data whose destructor is slow, 6: or waits for an item, 7: with items that queue themselves 20 times",
        },
        leak: bool {
            default: false,
            description: "Leak files in debugfs, and hotplug callbacks, with a registration or the value",
        },
        guard: u8 {
            default: 0,
            description: "Have a guard in the data of a registration, for which 1: a value, 2: a work item, 3: functions of another target, 4: a work item of the failing init function wait; 5: as 3, with the data of a leaked directory; 6: a function of a leaked directory waits; 7: none, but fail while a file is open",
        },
    },
}

/// The data of a registration.
struct Data {
    _guard: Option<OwnedDownGuard<Normal>>,
    /// Has an item that waits for the guard. So it is dropped later.
    _queue: Option<Workqueue>,
    /// What the destructor does.
    on_drop: fn(),
}

impl Data {
    fn new(guard: Option<OwnedDownGuard<Normal>>) -> Self {
        Self {
            _guard: guard,
            _queue: None,
            on_drop: || (),
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        (self.on_drop)();
        pr_info!("the data is dropped\n");
    }
}

/// A work item for which a destructor waits.
#[pin_data]
struct Quick {
    has_run: Atomic<bool>,
    #[pin]
    work: Work<Quick>,
}

impl_has_work! {
    impl HasWork<Self> for Quick { self.work }
}

impl WorkItem for Quick {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.has_run.store(true, Relaxed);
    }
}

impl Quick {
    /// Runs an item, and waits for it. Not forever: the test may fail.
    fn run_one() -> Result {
        let queue = Workqueue::new(c"going_quick", Flags::UNBOUND, 1)?;
        let this = Arc::pin_init(
            pin_init!(Self {
                has_run: Atomic::new(false),
                work <- new_work!("going_probe::Quick"),
            }),
            GFP_KERNEL,
        )?;
        let _ = queue.enqueue(this.clone());
        for _ in 0..100_000 {
            if this.has_run.load(Relaxed) {
                return Ok(());
            }
            fsleep(Delta::from_millis(1));
        }
        pr_err!("an item does not run\n");
        Ok(())
    }
}

/// Set when [`Idle`] has a table, or a file of [`Opened`] is open.
static IS_USED: Atomic<bool> = Atomic::new(false);

/// Waits until a flag is set. Not forever: the test may fail.
fn wait_for(flag: &Atomic<bool>) {
    for _ in 0..10_000 {
        if flag.load(Relaxed) {
            break;
        }
        fsleep(Delta::from_millis(10));
    }
}

/// Set when the module is unloaded.
static IS_GOING: Atomic<bool> = Atomic::new(false);

/// A target that is registered and never used for I/O.
struct Idle;

#[vtable]
impl dm::Target for Idle {
    const NAME: &'static CStr = c"going_probe";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = Data;
    type PerBio = ();

    fn ctr(
        _: &Data,
        _: &mut dm::TargetBuilder<'_>,
        _: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        IS_USED.store(true, Relaxed);
        Ok(Ok::<Self, Error>(Self))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }
}

/// The data of a registration, with a guard.
struct Guarded {
    guard: Option<OwnedDownGuard<Normal>>,
    domain: Domain<Normal>,
}

impl Guarded {
    fn new() -> Result<Self> {
        let domain: Domain<Normal> = new_domain!()?;
        Ok(Self {
            guard: Some(domain.clone().into_down_read()),
            domain,
        })
    }
}

/// The context in which a bio reaches the late function.
#[derive(Clone, Copy)]
enum How {
    /// On the completion of its clone.
    Clone,
    /// On its own completion.
    EndIo,
    /// In a queue that is leaked.
    Queue,
    /// As [`How::Queue`], and then it waits for the guard of the registration.
    Wait,
}

/// A target whose functions still run after they have ended their bio.
///
/// Table line: `<start> <len> going_late <dev path> <clone|end_io|queue|wait>`.
#[pin_data]
struct Late {
    device: dm::DeviceIndex,
    how: How,
    domain: Domain<Normal>,
    queue: ManuallyDrop<Workqueue>,
    #[pin]
    bios: BioSet,
}

#[vtable]
impl dm::Target for Late {
    const NAME: &'static CStr = c"going_late";
    const VERSION: [u32; 3] = [1, 0, 0];
    type ModuleData = Guarded;
    type PerBio = ();

    fn ctr(
        data: &Guarded,
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let names = [
            ("clone", How::Clone),
            ("end_io", How::EndIo),
            ("queue", How::Queue),
            ("wait", How::Wait),
        ];
        let how = args.one_of(&names, c"unknown name")?;
        let device = builder.get_device(path, 0)?;
        let queue = Workqueue::new(c"going_late", Flags::UNBOUND, 1)?;

        Ok(try_pin_init!(Self {
            device,
            how,
            domain: data.domain.clone(),
            queue: ManuallyDrop::new(queue),
            bios <- BioSet::new(NonZeroU16::MIN),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let (device, sector) = (self.device, bio.target_sector());
        match self.how {
            How::Clone => bio.defer(|bio| match bio.share(|target| &target.get_ref().bios) {
                Ok(clone) => clone.submit(device, sector, end_late),
                Err(bio) => bio.end(Err(BlkError::RESOURCE)),
            }),
            How::EndIo => bio.remap(device, sector),
            How::Queue => bio.defer(|bio| {
                bio.queue(|target| &target.get_ref().queue, end_queued_late);
            }),
            How::Wait => bio.defer(|bio| {
                bio.queue(|target| &target.get_ref().queue, end_and_wait);
            }),
        }
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        let result = bio.result();
        bio.defer(|bio| end_late(bio, result))
    }
}

/// Ends a bio, after which its target and the module may go. The test runs this in a task.
fn end_late(bio: dm::IrqBio<Late>, result: BlkResult) {
    bio.end(result);
    be_late();
}

/// As [`end_late()`].
fn end_queued_late(bio: dm::Bio<Late>) {
    bio.end(Ok(()));
    be_late();
}

/// As [`end_late()`].
fn end_and_wait(bio: dm::Bio<Late>) {
    let domain = bio.target().domain.clone();
    bio.end(Ok(()));
    domain.synchronize();
    be_late();
}

fn be_late() {
    fsleep(Delta::from_secs(2));
    pr_info!("is late\n");
}

/// Hotplug callbacks that own values.
#[pin_data]
struct CpuCallbacks {
    #[pin]
    target: Mutex<Option<dm::Registration<Idle>>>,
    #[pin]
    values: Mutex<Option<Values>>,
}

impl CpuCallbacks {
    fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                target <- new_mutex!(None),
                values <- new_mutex!(None),
            }),
            GFP_KERNEL,
        )
    }
}

#[vtable]
impl hotplug::Callbacks for CpuCallbacks {
    fn offline(&self, cpu: CpuId) {
        pr_info!("CPU {} goes\n", cpu.as_u32());
    }
}

/// A value that is destroyed after the exit function has returned.
enum Value {
    Empty,
    Registers,
    Late,
    Queues(Arc<Job>),
    Target(#[expect(dead_code, reason = "is only dropped")] dm::Registration<Idle>),
}

impl Drop for Value {
    fn drop(&mut self) {
        if matches!(self, Self::Empty) {
            return;
        }
        // Until the library's notifier is called for the module.
        fsleep(Delta::from_millis(200));
        if matches!(self, Self::Registers) {
            match CpuCallbacks::new().and_then(hotplug::Registration::new) {
                Ok(registration) => forget(registration),
                Err(error) => pr_err!("no registration: {error:?}\n"),
            }
        }
        if let Self::Queues(job) = self {
            // Longer than items may queue themselves again without an end.
            fsleep(Delta::from_millis(1500));
            let _ = job.queue.enqueue(job.clone());
        }
        pr_info!("destroyed\n");
    }
}

/// Gives its value to a work item.
struct Values(Pin<KBox<Pointer<Value, Normal>>>);

impl Values {
    fn new(value: Value) -> Result<Self> {
        let domain: Domain<Normal> = new_domain!()?;
        let item = Item::new(value, GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(new_pointer!(domain, item), GFP_KERNEL)?;
        Ok(Self(pointer))
    }

    /// Gives the value to a work item.
    fn pass_on(&self) {
        match Item::new(Value::Empty, GFP_KERNEL) {
            Ok(item) => self.0.lock().replace(item).free_in_workqueue(),
            Err(_) => pr_err!("no item\n"),
        }
    }

    /// Returns a guard for which a destructor of the module waits.
    fn leak_with_guard() -> Result<Data> {
        let this = Self::new(Value::Empty)?;
        let guard = this.0.domain().clone().into_down_read();
        let item = Item::new(Value::Empty, GFP_KERNEL)?;
        this.0.lock().replace(item).free_later();
        leak::forget(this)?;
        Ok(Data::new(Some(guard)))
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        self.pass_on();
    }
}

/// A work item that is queued while its module is going.
#[pin_data]
struct Job {
    queue: Arc<Workqueue>,
    /// The number of runs.
    times: u32,
    /// Makes a registration each time: what the destructor of its data does.
    on_drop: Option<fn()>,
    /// Of which it passes one on each time.
    values: Option<Values>,
    runs: Atomic<u32>,
    _part: Part,
    #[pin]
    work: Work<Job>,
}

impl_has_work! {
    impl HasWork<Self> for Job { self.work }
}

impl WorkItem for Job {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // The first run is longer than the removal of the module takes.
        let run = this.runs.fetch_add(1, Relaxed) + 1;
        fsleep(Delta::from_millis(if run == 1 { 500 } else { 5 }));
        if let Some(on_drop) = this.on_drop {
            let data = Data {
                _guard: None,
                _queue: None,
                on_drop,
            };
            if let Err(error) = dm::Registration::<Idle>::new(data) {
                pr_err!("no registration: {error:?}\n");
            }
        }
        if let Some(values) = &this.values {
            values.pass_on();
        }
        pr_info!("a work item ends\n");
        if run < this.times {
            let _ = this.queue.enqueue(this.clone());
        }
    }
}

/// A part of an item.
struct Part;

impl Drop for Part {
    fn drop(&mut self) {
        pr_info!("an item is dropped\n");
    }
}

impl Job {
    fn new(
        queue: Arc<Workqueue>,
        times: u32,
        on_drop: Option<fn()>,
        values: Option<Values>,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                queue,
                times,
                on_drop,
                values,
                runs: Atomic::new(0),
                _part: Part,
                work <- new_work!("going_probe::Job"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns an item for a queue that is leaked.
    fn of_leaked_queue() -> Result<Arc<Self>> {
        let queue = Arc::new(
            Workqueue::new(c"going_probe", Flags::UNBOUND, 1)?,
            GFP_KERNEL,
        )?;
        leak::forget(queue.clone())?;
        Self::new(queue, 1, None, None)
    }

    /// Leaks a queue that has work items.
    fn leak(times: u32, on_drop: Option<fn()>, passes: bool) -> Result {
        // One item at a time: the other two wait.
        let queue = Workqueue::new(c"going_probe", Flags::UNBOUND, 1)?;
        let queue = Arc::new(queue, GFP_KERNEL)?;

        for _ in 0..3 {
            let values = passes.then(|| Values::new(Value::Empty)).transpose()?;
            let job = Self::new(queue.clone(), times, on_drop, values)?;
            let _ = queue.enqueue(job);
        }
        leak::forget(queue)
    }
}

/// A work item that waits for all readers of a domain.
#[pin_data]
struct Waiter {
    domain: Domain<Normal>,
    #[pin]
    work: Work<Waiter>,
}

impl_has_work! {
    impl HasWork<Self> for Waiter { self.work }
}

impl WorkItem for Waiter {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        this.domain.synchronize();
        pr_info!("a work item ends\n");
    }
}

impl Waiter {
    fn new(domain: Domain<Normal>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                domain,
                work <- new_work!("going_probe::Waiter"),
            }),
            GFP_KERNEL,
        )
    }

    /// Fails while a table has the target whose data has the guard for which the item waits.
    fn fail_with_table() -> Result<Data> {
        let domain: Domain<Normal> = new_domain!()?;
        let guard = domain.clone().into_down_read();
        let queue = Arc::new(
            Workqueue::new(c"going_probe", Flags::UNBOUND, 1)?,
            GFP_KERNEL,
        )?;
        leak::forget(queue.clone())?;
        let _target = dm::Registration::<Idle>::new(Data::new(Some(guard)))?;
        wait_for(&IS_USED);
        let _ = queue.enqueue(Self::new(domain)?);
        pr_info!("the init function fails\n");
        Err(EIO)
    }

    /// Returns a guard for which an item of the module waits.
    fn with_guard() -> Result<Data> {
        let domain: Domain<Normal> = new_domain!()?;
        let guard = domain.clone().into_down_read();
        let queue = Workqueue::new(c"going_probe", Flags::UNBOUND, 1)?;
        let _ = queue.enqueue(Self::new(domain)?);
        Ok(Data {
            _guard: Some(guard),
            _queue: Some(queue),
            on_drop: || (),
        })
    }
}

/// Files, one of which is still read after its module began to go.
struct Shown;

#[vtable]
impl Files for Shown {
    const FILES: &'static [File<Self>] = &[
        File::read_only(c"value", |_, f| f.write_str("1\n")),
        File::read_only(c"late", Self::show_late),
        File::read_only(c"more", Self::show_more),
        File::read_only(c"chain", |_, f| Chain.show(f)),
    ];
}

impl Shown {
    /// Leaks directories.
    fn show_more(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..20 {
            leak_directory(More).map_err(|_| fmt::Error)?;
        }
        f.write_str("20\n")
    }

    fn show_late(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pr_info!("is read\n");
        wait_for(&IS_GOING);
        be_late();
        f.write_str("late\n")
    }
}

/// An open file of a device. The library has no record of it.
struct Opened;

impl Drop for Opened {
    fn drop(&mut self) {
        pr_info!("the file is closed\n");
    }
}

#[vtable]
impl MiscDevice for Opened {
    type Ptr = KBox<Self>;

    fn open(_: &fs::File, _: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        IS_USED.store(true, Relaxed);
        Ok(KBox::new(Self, GFP_KERNEL)?)
    }
}

impl Opened {
    /// Fails while a process has a file of the device open.
    fn fail() -> Result<GoingModule> {
        let options = MiscDeviceOptions {
            name: c"going_probe",
        };
        let device = KBox::pin_init(
            MiscDeviceRegistration::<Self>::register(options),
            GFP_KERNEL,
        )?;
        wait_for(&IS_USED);
        drop(device);
        pr_info!("the init function fails\n");
        Err(EIO)
    }
}

/// A directory without files.
struct More;

#[vtable]
impl Files for More {
    const FILES: &'static [File<Self>] = &[];
}

/// A directory with a file.
struct Chain;

#[vtable]
impl Files for Chain {
    const FILES: &'static [File<Self>] = &[File::read_only(c"chain", Self::show)];
}

impl Chain {
    /// Leaks directories like its own, and is still used then.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..5 {
            if let Err(error) = leak_directory(Self) {
                if error == ENODEV {
                    pr_info!("a directory is refused\n");
                }
                return Err(fmt::Error);
            }
            fsleep(Delta::from_millis(100));
        }
        f.write_str("5\n")
    }
}

/// Leaks a directory with a name of its own.
fn leak_directory<T: Files>(data: T) -> Result {
    static NUMBER: Atomic<u32> = Atomic::new(0);

    let number = NUMBER.fetch_add(1, Relaxed);
    let name = CString::try_from_fmt(fmt!("going_probe_{number}"))?;
    forget(Dir::new(&name, Arc::new(data, GFP_KERNEL)?)?);
    Ok(())
}

/// Leaks directories until they are refused.
fn leak_too_many() {
    while leak_directory(More).is_ok() {}
    pr_info!("a directory is refused\n");
}

/// The data of a directory that is leaked.
struct Held {
    _guard: Option<OwnedDownGuard<Normal>>,
    domain: Domain<Normal>,
}

#[vtable]
impl Files for Held {
    const FILES: &'static [File<Self>] = &[File::read_only(c"wait", Self::show)];
}

impl Held {
    fn leak(guard: Option<OwnedDownGuard<Normal>>, domain: Domain<Normal>) -> Result {
        let held = Self {
            _guard: guard,
            domain,
        };
        forget(Dir::new(c"going_probe_held", Arc::new(held, GFP_KERNEL)?)?);
        Ok(())
    }

    /// Waits for the guard of a registration.
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pr_info!("a function waits\n");
        self.domain.synchronize();
        f.write_str("it ends\n")
    }
}

struct GoingModule {
    _files: Option<Dir<Shown>>,
    _idle: Option<dm::Registration<Idle>>,
    _values: Option<Values>,
    _late: dm::Registration<Late>,
}

impl Drop for GoingModule {
    fn drop(&mut self) {
        IS_GOING.store(true, Relaxed);
    }
}

impl kernel::Module for GoingModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let value = match module_parameters::value.value() {
            1 => Value::Registers,
            2 => Value::Target(dm::Registration::new(Data::new(None))?),
            3 => Value::Late,
            4 | 5 => Value::Queues(Job::of_leaked_queue()?),
            _ => Value::Empty,
        };
        if module_parameters::value.value() == 5 {
            let data = Data {
                _guard: None,
                _queue: None,
                on_drop: leak_too_many,
            };
            forget(dm::Registration::<Idle>::new(data)?);
        }
        match module_parameters::queue.value() {
            0 => (),
            how => {
                let on_drop: Option<fn()> = match how {
                    3 => Some(|| ()),
                    5 => Some(|| fsleep(Delta::from_millis(50))),
                    6 => Some(|| {
                        if let Err(error) = Quick::run_one() {
                            pr_err!("no item: {error:?}\n");
                        }
                    }),
                    _ => None,
                };
                let times = match how {
                    1 => 1,
                    7 => 20,
                    _ => u32::MAX,
                };
                Job::leak(times, on_drop, how == 4)?;
            }
        }
        if module_parameters::guard.value() == 7 {
            return Opened::fail();
        }
        let mut late = Guarded::new()?;
        let idle = match module_parameters::guard.value() {
            1 => Some(Values::leak_with_guard()?),
            2 => Some(Waiter::with_guard()?),
            4 => Some(Waiter::fail_with_table()?),
            3 => Some(Data::new(late.guard.take())),
            5 => {
                Held::leak(late.guard.take(), late.domain.clone())?;
                None
            }
            6 => Some(Data::new(late.guard.take())),
            _ => None,
        };
        let idle = idle.map(dm::Registration::new).transpose()?;
        if module_parameters::guard.value() == 6 {
            Held::leak(None, late.domain.clone())?;
        }
        let files = Dir::new(c"going_probe", Arc::new(Shown, GFP_KERNEL)?)?;
        let values = Values::new(value)?;
        if !module_parameters::leak.value() {
            return Ok(Self {
                _files: Some(files),
                _idle: idle,
                _values: Some(values),
                _late: dm::Registration::new(late)?,
            });
        }

        forget(files);
        let callbacks = CpuCallbacks::new()?;
        *callbacks.values.lock() = Some(values);
        forget(hotplug::Registration::new(callbacks.clone())?);
        // Registered later, so it is unregistered first.
        *callbacks.target.lock() = Some(dm::Registration::new(Data::new(None))?);
        Ok(Self {
            _files: None,
            _idle: idle,
            _values: None,
            _late: dm::Registration::new(late)?,
        })
    }
}
