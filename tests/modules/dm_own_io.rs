// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `own_io`: does I/O to its devices when it gets a message, for tests.
//!
//! Table line: `<start> <len> own_io <dev path> <dev path> [fail]`. With `fail`, the line is
//! refused after it has started I/O. `map` tries I/O, too, and the status has the errors.
//!
//! Messages, which fail with the error of the operation:
//!
//! - `do write|read|flush|discard|zeroes|clear <device> <sector> <sectors> [<byte>]`, where the
//!   device is 0 or 1, or 2 for the first device of the first line that was constructed. `read`
//!   prints the first and the last byte. `zeroes` writes no data; `clear` does if necessary.
//! - `do copy <device> <sector> <sectors> <device>...`: copies to the same sector.
//! - `old ...`: as `do ...`, with the handles of the first line that was constructed.
//! - `async read|write|copy ...`: as `do ...`, without waiting. The result is in the log.
//! - `flood`: starts reads and copies, and does not wait for them.
//! - `count`: prints the number of such reads and copies that have not ended, and of copies in
//!   whose functions another copy failed with [`EDEADLK`].
//! - `loop`: reads and copies in another task until that fails.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    impl_has_work,
    new_mutex,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

use kscale::{
    block::dm,
    mm::{
        gfp::Gfp,
        page::FilledPage, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

module! {
    type: OwnIoModule,
    name: "dm_own_io",
    authors: ["The kscale authors"],
    description: "Device-mapper target that does I/O of its own, for tests of the library",
    license: "GPL",
}

struct OwnIoModule {
    _registration: dm::Registration<OwnIo>,
}

impl kernel::Module for OwnIoModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let shared = Arc::pin_init(
            try_pin_init!(Shared {
                first <- new_mutex!(None),
                pending: Atomic::new(0),
                refused: Atomic::new(0),
                queue: Workqueue::new(c"dm_own_io", Flags::UNBOUND, 0)?,
            }? Error),
            GFP_KERNEL,
        )?;
        Ok(Self {
            _registration: dm::Registration::new(shared)?,
        })
    }
}

/// The data of the module.
#[pin_data]
struct Shared {
    /// The handles of the first line that was constructed.
    #[pin]
    first: Mutex<Option<Clients>>,
    /// The counts that `count` prints.
    pending: Atomic<u32>,
    refused: Atomic<u32>,
    queue: Workqueue,
}

/// The devices of a line, and the handles for I/O to them.
#[derive(Clone)]
struct Clients {
    devices: [dm::DeviceIndex; 2],
    io: dm::IoClient,
    kcopyd: dm::KcopydClient,
}

/// The arguments of a message after the devices.
fn region(device: dm::DeviceIndex, args: &mut dm::Args<'_>) -> Result<dm::Region> {
    let parsed = |args: &mut dm::Args<'_>| args.parsed(c"").map_err(|error| error.error());
    Ok(dm::Region {
        device,
        sector: parsed(args)?,
        n_sectors: parsed(args)?,
    })
}

impl Clients {
    /// Returns the device of an argument.
    fn device(&self, shared: &Shared, args: &mut dm::Args<'_>) -> Result<dm::DeviceIndex> {
        let number: usize = args.parsed(c"").map_err(|error| error.error())?;
        match self.devices.get(number) {
            Some(device) => Ok(*device),
            None => Ok(shared.first.lock().as_ref().ok_or(EINVAL)?.devices[0]),
        }
    }

    /// Handles a message.
    fn run(&self, shared: &Shared, args: &mut dm::Args<'_>, out: &mut dm::StatusBuf<'_>) -> Result {
        let name = args.next().ok_or(EINVAL)?;
        let device = self.device(shared, args)?;
        let region = region(device, args)?;
        let mut pages = FilledPage::<2>::zeroed(Gfp::KERNEL)?;

        match name.to_bytes() {
            b"write" => {
                let byte = args.parsed(c"").map_err(|error| error.error())?;
                pages.as_mut_slice().fill(byte);
                self.io.write(region, &pages)
            }
            b"read" => {
                self.io.read(region, &mut pages)?;
                let len = usize::try_from(region.n_sectors)?.saturating_mul(512);
                let bytes = pages.as_slice().get(..len).ok_or(EINVAL)?;
                let (first, last) = (bytes.first().ok_or(EINVAL)?, bytes.last().ok_or(EINVAL)?);
                write!(out, "{first} {last}").map_err(|_| EINVAL)
            }
            b"flush" => self.io.flush(region),
            b"discard" => self.io.discard(region),
            b"zeroes" => self.io.write_zeroes(region),
            b"clear" => Ok(self.kcopyd.zero(&[region])?),
            b"copy" => {
                let mut to = KVec::new();
                while args.len() > 0 {
                    let device = self.device(shared, args)?;
                    to.push(dm::Region { device, ..region }, GFP_KERNEL)?;
                }
                let result = self.kcopyd.copy(region, &to);
                match result {
                    Err(dm::CopyError::Refused(error)) => Err(error),
                    result => write!(out, "{result:?}").map_err(|_| EINVAL),
                }
            }
            _ => Err(EINVAL),
        }
    }

    /// Handles a message without waiting.
    fn run_async(&self, shared: &Shared, args: &mut dm::Args<'_>) -> Result {
        let name = args.next().ok_or(EINVAL)?;
        let device = self.device(shared, args)?;
        let region = region(device, args)?;
        let mut pages = FilledPage::<2>::zeroed(Gfp::KERNEL)?;

        match name.to_bytes() {
            b"write" => {
                let byte = args.parsed(c"").map_err(|error| error.error())?;
                pages.as_mut_slice().fill(byte);
                self.io.write_async(region, pages, |pages, result| {
                    pr_info!("async write: {result:?} {:?}\n", pages.as_slice().first());
                });
            }
            b"read" => self.io.read_async(region, pages, |pages, result| {
                pr_info!("async read: {result:?} {:?}\n", pages.as_slice().first());
            }),
            b"chain" => chain(self.io.clone(), region, pages, 0),
            b"copy" => {
                let device = self.device(shared, args)?;
                let to = dm::Region { device, ..region };
                self.kcopyd.copy_async(region, &[to], |result| {
                    pr_info!("async copy: {result:?}\n");
                });
            }
            _ => return Err(EINVAL),
        }
        Ok(())
    }

    /// Starts reads and copies of the first sectors.
    fn flood(&self, shared: &Arc<Shared>) -> Result {
        let [from, to] = self.devices.map(|device| dm::Region {
            device,
            sector: 0,
            n_sectors: 8,
        });
        for _ in 0..16 {
            let page = FilledPage::<0>::zeroed(Gfp::KERNEL)?;
            shared.pending.add(2, Relaxed);
            let counts = shared.clone();
            self.io.read_async(from, page, move |_, _| {
                counts.pending.fetch_sub(1, Relaxed);
            });
            let (counts, clients) = (shared.clone(), self.clone());
            self.kcopyd.copy_async(from, &[to], move |_| {
                if clients.kcopyd.copy(from, &[to]) == Err(dm::CopyError::Refused(EDEADLK)) {
                    counts.refused.add(1, Relaxed);
                }
                counts.pending.fetch_sub(1, Relaxed);
            });
        }
        Ok(())
    }

    /// Reads and copies the first sectors. Returns both errors.
    fn try_both(&self) -> Result<(Result, Result<(), dm::CopyError>)> {
        let [from, to] = self.devices.map(|device| dm::Region {
            device,
            sector: 0,
            n_sectors: 8,
        });
        let mut page = FilledPage::<0>::zeroed(Gfp::NOIO)?;
        Ok((self.io.read(from, &mut page), self.kcopyd.copy(from, &[to])))
    }
}

/// Reads a region, and then again from the function of the read, until a read fails. `count` is the
/// number of reads before.
fn chain(io: dm::IoClient, region: dm::Region, pages: FilledPage<2>, count: u32) {
    let next = io.clone();
    io.read_async(region, pages, move |pages, result| match result {
        Ok(()) if count < 8 => chain(next, region, pages, count + 1),
        result => pr_info!("async chain: {count} {result:?}\n"),
    });
}

/// I/O in another task, until it fails.
#[pin_data]
struct Loop {
    clients: Clients,
    #[pin]
    work: Work<Loop>,
}

impl_has_work! {
    impl HasWork<Self> for Loop { self.work }
}

impl WorkItem for Loop {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        loop {
            match this.clients.try_both() {
                Ok((Ok(()), Ok(()))) => {}
                result => {
                    pr_info!("the loop has ended: {result:?}\n");
                    break;
                }
            }
        }
    }
}

struct OwnIo {
    clients: Clients,
    shared: Arc<Shared>,
    /// The bios that `map` got, and those in which both operations failed with [`EDEADLK`].
    mapped: Atomic<u32>,
    refused: Atomic<u32>,
}

#[vtable]
impl dm::Target for OwnIo {
    const NAME: &'static CStr = c"own_io";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = Arc<Shared>;
    type PerBio = ();

    fn ctr(
        shared: &Arc<Shared>,
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let first = args.required(c"missing device path")?;
        let second = args.required(c"missing device path")?;
        let devices = [
            builder.get_device(first, 0)?,
            builder.get_device(second, 0)?,
        ];
        let clients = Clients {
            devices,
            io: builder.io_client()?,
            kcopyd: builder.kcopyd_client()?,
        };
        let mut first = shared.first.lock();
        if first.is_none() {
            *first = Some(clients.clone());
        }
        drop(first);

        if args.next().is_some() {
            start_loop(shared, &clients)?;
            clients.flood(shared)?;
            // I/O in `ctr` itself.
            let (read, copied) = clients.try_both()?;
            read?;
            copied.map_err(Error::from)?;
            return Err(dm::CtrError::invalid(c"failed as requested"));
        }
        Ok(Ok::<Self, Error>(Self {
            clients,
            shared: shared.clone(),
            mapped: Atomic::new(0),
            refused: Atomic::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        self.mapped.add(1, Relaxed);
        let deadlock = (Err(EDEADLK), Err(dm::CopyError::Refused(EDEADLK)));
        if self.clients.try_both() == Ok(deadlock) {
            self.refused.add(1, Relaxed);
        }
        let sector = bio.target_sector();
        bio.remap(self.clients.devices[0], sector)
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.clients.devices[0]
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let (mapped, refused) = (self.mapped.load(Relaxed), self.refused.load(Relaxed));
        write!(out, "mapped={mapped} refused={refused}")
    }

    fn message(self: Pin<&Self>, mut args: dm::Args<'_>, out: &mut dm::StatusBuf<'_>) -> Result {
        match args.next().ok_or(EINVAL)?.to_bytes() {
            b"async" => self.clients.run_async(&self.shared, &mut args),
            b"flood" => self.clients.flood(&self.shared),
            b"count" => {
                let (pending, refused) = (&self.shared.pending, &self.shared.refused);
                let (pending, refused) = (pending.load(Relaxed), refused.load(Relaxed));
                write!(out, "pending={pending} refused={refused}").map_err(|_| EINVAL)
            }
            b"loop" => start_loop(&self.shared, &self.clients),
            b"old" => {
                let old = self.shared.first.lock().clone().ok_or(EINVAL)?;
                old.run(&self.shared, &mut args, out)
            }
            b"do" => self.clients.run(&self.shared, &mut args, out),
            _ => Err(EINVAL),
        }
    }
}

/// Starts I/O in another task. The module waits for the task when it is unloaded.
fn start_loop(shared: &Shared, clients: &Clients) -> Result {
    let item = Arc::pin_init(
        pin_init!(Loop {
            clients: clients.clone(),
            work <- new_work!("dm_own_io::Loop"),
        }),
        GFP_KERNEL,
    )?;
    let _ = shared.queue.enqueue(item);
    Ok(())
}
