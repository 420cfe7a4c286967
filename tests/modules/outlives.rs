// SPDX-License-Identifier: GPL-2.0

//! Hands values over to other modules, to test their use after this module was unloaded.

#![forbid(unsafe_code)]

use core::num::NonZeroU16;

use kernel::{
    fmt,
    impl_has_work,
    new_work,
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    block::{
        bio::BioSet,
        dm, //
    },
    lib::debugfs::{
        self,
        Dir,
        File, //
    },
    mm::mempool::{
        Mempool,
        Pages, //
    },
    sync::{
        rcu_list,
        rwsem::{
            new_rwsem,
            RwSemaphore, //
        },
        srcu::{
            self,
            new_domain,
            new_pointer,
            Domain,
            Fast,
            Item,
            Normal,
            Pointer, //
        },
        workqueue::{
            Flags,
            Workqueue, //
        }, //
    },
    testing::{
        handover::{
            store,
            take, //
        },
        leak, //
    }, //
};

module! {
    type: OutlivesModule,
    name: "outlives",
    authors: ["The kscale authors"],
    description: "Hands over values that outlive it, for tests",
    license: "GPL",
    params: {
        step: u8 {
            default: 0,
            description: "1: hand over a pointer, 2: replace its value, 3: drop it, 4: hand over locks, 5: hand over an entry of a list, 6: queue an item, 7: hand over files, 8: hand over bios, 9: hand over items, 10: replace the value again and again, in an item of a leaked queue",
        },
    },
}

/// A value whose destructor is code of this module.
struct Value {
    is_slow: bool,
}

impl Value {
    fn item(is_slow: bool) -> Result<Item<Self>> {
        Ok(Item::new(Self { is_slow }, GFP_KERNEL)?)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if self.is_slow {
            fsleep(Delta::from_millis(100));
        } else {
            pr_info!("destroyed\n");
        }
    }
}

type Shared = Arc<Pointer<Value, Normal>>;

fn store_pointer() -> Result {
    let domain: Domain<Normal> = new_domain!()?;
    let item = Value::item(false)?;
    store::<Shared>(Arc::pin_init(new_pointer!(domain, item), GFP_KERNEL)?)
}

/// Replaces the value of a pointer that an earlier load of the module handed over, during a read.
fn replace_value() -> Result {
    let pointer: Shared = take().ok_or(ENOENT)?;
    store(pointer.domain().clone().into_down_read())?;
    let item = Value::item(false)?;
    pointer.lock().replace(item).free_later();
    store(pointer)
}

/// A work item that queues itself again, and each time replaces the value of a pointer that an
/// earlier load of the module handed over.
#[pin_data]
struct Endless {
    #[pin]
    work: Work<Endless>,
    pointer: Shared,
    queue: Arc<Workqueue>,
}

impl_has_work! {
    impl HasWork<Self> for Endless { self.work }
}

impl WorkItem for Endless {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        // The notifier flushes the queue, and sleeps now.
        fsleep(Delta::from_millis(1));
        if let Ok(item) = Value::item(true) {
            this.pointer.lock().replace(item).free_in_workqueue();
        }
        // Values are pending at all times.
        fsleep(Delta::from_millis(30));
        let queue = this.queue.clone();
        // It fails when the module is unloaded.
        let _ = queue.enqueue(this);
    }
}

fn replace_always() -> Result {
    let pointer: Shared = take().ok_or(ENOENT)?;
    let queue = Arc::new(Workqueue::new(c"outlives", Flags::UNBOUND, 0)?, GFP_KERNEL)?;
    let own = (pointer.clone(), queue.clone());
    let item = Arc::pin_init(
        pin_init!(Endless {
            work <- new_work!("outlives::Endless"),
            pointer: own.0,
            queue: own.1,
        }),
        GFP_KERNEL,
    )?;
    store(pointer)?;
    // The library drops only its own reference when the item is refused: the queue stays leaked.
    leak::forget(item.clone())?;
    queue.enqueue(item).map_err(|_| EINVAL)
}

fn store_locks() -> Result {
    let domain: Domain<Fast> = new_domain!()?;
    let item = Item::new(1, GFP_KERNEL)?;
    let pointer: Arc<Pointer<u32, Fast>> =
        Arc::pin_init(new_pointer!(domain.clone(), item), GFP_KERNEL)?;
    let list: Arc<srcu::List<u32, Fast>> =
        Arc::pin_init(srcu::new_list!(domain.clone()), GFP_KERNEL)?;
    let rcu_list: Arc<rcu_list::List<u32>> = Arc::pin_init(rcu_list::new_list!(), GFP_KERNEL)?;
    let rwsem: Arc<RwSemaphore<u32>> = Arc::pin_init(new_rwsem!(1), GFP_KERNEL)?;

    store(domain)?;
    store(pointer)?;
    store(list)?;
    store(rcu_list)?;
    store(rwsem)
}

fn store_entry() -> Result {
    let list: Arc<rcu_list::List<u32>> = Arc::pin_init(rcu_list::new_list!(), GFP_KERNEL)?;

    store(list.push_front(1, GFP_KERNEL)?)?;
    store(list)
}

/// A work item that is code of this module.
#[pin_data]
pub struct Slow {
    #[pin]
    work: Work<Slow>,
}

impl_has_work! {
    impl HasWork<Self> for Slow { self.work }
}

impl WorkItem for Slow {
    type Pointer = Arc<Self>;

    // `heir` has a copy. Otherwise it could not queue an item without a symbol of this module.
    #[inline]
    fn run(_: Arc<Self>) {
        fsleep(Delta::from_secs(3));
        pr_info!("a work item ends\n");
    }
}

fn item() -> Result<Arc<Slow>> {
    Arc::pin_init(
        pin_init!(Slow {
            work <- new_work!("outlives::Slow"),
        }),
        GFP_KERNEL,
    )
}

/// A work item in a [`KBox`].
#[pin_data]
pub struct Boxed {
    #[pin]
    work: Work<Boxed>,
    number: u32,
}

impl_has_work! {
    impl HasWork<Self> for Boxed { self.work }
}

impl WorkItem for Boxed {
    type Pointer = Pin<KBox<Self>>;

    // As for `Slow`.
    #[inline]
    fn run(_: Pin<KBox<Self>>) {
        pr_err!("an item of another module runs\n");
    }
}

impl Boxed {
    /// Returns the number of the item.
    #[inline]
    pub fn number(&self) -> u32 {
        self.number
    }
}

fn store_items() -> Result {
    let boxed: Pin<KBox<Boxed>> = KBox::pin_init(
        pin_init!(Boxed {
            work <- new_work!("outlives::Boxed"),
            number: 7,
        }),
        GFP_KERNEL,
    )?;
    store(item()?)?;
    store(boxed)
}

/// Queues an item to the queue of another module.
fn queue_item() -> Result {
    let queue: Arc<Workqueue> = take().ok_or(ENOENT)?;
    queue.enqueue(item()?).map_err(|_| EINVAL)
}

/// Files with a function that takes three seconds.
pub struct Slowly;

#[vtable]
impl debugfs::Files for Slowly {
    const FILES: &'static [File<Self>] = &[File::read_only(c"slow", Self::show)];
}

impl Slowly {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        pr_info!("a read begins\n");
        fsleep(Delta::from_secs(3));
        pr_info!("a read ends\n");
        writeln!(f, "slow")
    }
}

fn store_files() -> Result {
    store(Dir::new(c"outlives", Arc::new(Slowly, GFP_KERNEL)?)?)
}

/// A target that hands over its bios.
#[pin_data]
pub struct Lender {
    /// The device of all bios.
    pub device: dm::DeviceIndex,
    /// A queue for bios.
    pub queue: Workqueue,
    /// A set of clones.
    #[pin]
    pub set: BioSet,
    /// A pool of pages of clones.
    #[pin]
    pub pool: Mempool<Pages>,
}

#[vtable]
impl dm::Target for Lender {
    const NAME: &'static CStr = c"outlives";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        (): &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let device = builder.get_device(args.required(c"device")?, 0)?;
        let queue = Workqueue::ordered(c"outlives")?;
        Ok(try_pin_init!(Lender {
            device,
            queue,
            set <- BioSet::new(NonZeroU16::MIN),
            pool <- Mempool::new(1, Pages::<0>),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        // Without memory, the bio ends.
        bio.defer(|bio| {
            let _ = store(bio);
        })
    }
}

/// The module, which is the owner of the public types.
pub struct OutlivesModule {
    _target: Option<dm::Registration<Lender>>,
}

impl kernel::Module for OutlivesModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mut this = Self { _target: None };
        match module_parameters::step.value() {
            1 => store_pointer()?,
            2 => replace_value()?,
            3 => drop(take::<Shared>().ok_or(ENOENT)?),
            4 => store_locks()?,
            5 => store_entry()?,
            6 => queue_item()?,
            7 => store_files()?,
            8 => this._target = Some(dm::Registration::new(())?),
            9 => store_items()?,
            10 => replace_always()?,
            _ => return Err(EINVAL),
        }
        Ok(this)
    }
}
