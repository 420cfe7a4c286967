// SPDX-License-Identifier: GPL-2.0

//! Device-mapper targets `failed`, `failed_data` and `failed_drop`: they count the errors of their
//! devices, for tests. The bios of `failed_data` have data, those of `failed_drop` data with a
//! destructor. `map` writes the data. Later it must be the same: otherwise the bio fails.
//!
//! Table line: `<start> <len> failed <dev path> <dev path> <what>`, where `what` is one of the
//! names below. The first [`AREA_SECTORS`] sectors go to the first device, the others to the
//! second.
//!
//! Status: `first=<n> second=<n> readahead=<n> writes=<n> medium=<n> live=<n>`: the errors of each
//! device; those of bios that read ahead, those of writes, and those that are medium errors; the
//! number of bios with data.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::{
    marker::PhantomData,
    num::NonZeroU32, //
};

use kscale::{
    block::{
        bio::{
            BlkError,
            Op, //
        },
        dm, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

module! {
    type: FailedModule,
    name: "dm_failed",
    authors: ["The kscale authors"],
    description: "Device-mapper targets that count errors for tests of the library",
    license: "GPL",
}

struct FailedModule {
    _failed: dm::Registration<Failed<()>>,
    _failed_data: dm::Registration<Failed<Sector>>,
    _failed_drop: dm::Registration<Failed<Counted>>,
}

impl kernel::Module for FailedModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _failed: dm::Registration::new(())?,
            _failed_data: dm::Registration::new(())?,
            _failed_drop: dm::Registration::new(())?,
        })
    }
}

/// The sectors that the first device has.
const AREA_SECTORS: u64 = 1024;

/// The action for a bio.
#[derive(Clone, Copy)]
enum What {
    /// Remap it.
    Remap,
    /// Accept a sector, after its data was written, and remap it.
    Partial,
    /// Submit it later, from a worker.
    Submit,
    /// Accept a sector, after its data was written, and submit it later.
    PartialSubmit,
    /// End it with an error.
    End,
    /// End it later, with an error.
    EndLater,
}

const NAMES: [(&str, What); 6] = [
    ("remap", What::Remap),
    ("partial", What::Partial),
    ("submit", What::Submit),
    ("partial_submit", What::PartialSubmit),
    ("end", What::End),
    ("end_later", What::EndLater),
];

/// The number of existing [`Counted`] values.
static LIVE: Atomic<i32> = Atomic::new(0);

/// Data of a bio: its sector.
#[derive(Default)]
struct Sector(Option<u64>);

/// As [`Sector`], with a destructor.
struct Counted(Option<u64>);

impl Default for Counted {
    fn default() -> Self {
        LIVE.fetch_add(1, Relaxed);
        Self(None)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Relaxed);
    }
}

/// A type of per-bio data.
trait Data: Default + Send + Sync + 'static {
    const NAME: &'static CStr;

    /// Writes the sector.
    fn set(&mut self, sector: u64);

    /// Returns whether the sector is the written one.
    fn is(&self, sector: u64) -> bool;
}

impl Data for () {
    const NAME: &'static CStr = c"failed";

    fn set(&mut self, _sector: u64) {}

    fn is(&self, _sector: u64) -> bool {
        true
    }
}

impl Data for Sector {
    const NAME: &'static CStr = c"failed_data";

    fn set(&mut self, sector: u64) {
        self.0 = Some(sector);
    }

    fn is(&self, sector: u64) -> bool {
        self.0 == Some(sector)
    }
}

impl Data for Counted {
    const NAME: &'static CStr = c"failed_drop";

    fn set(&mut self, sector: u64) {
        self.0 = Some(sector);
    }

    fn is(&self, sector: u64) -> bool {
        self.0 == Some(sector)
    }
}

struct Failed<D: Data> {
    devices: [dm::DeviceIndex; 2],
    errors: [Atomic<u32>; 2],
    readahead: Atomic<u32>,
    writes: Atomic<u32>,
    medium: Atomic<u32>,
    what: What,
    queue: Workqueue,
    _data: PhantomData<D>,
}

impl<D: Data> Failed<D> {
    fn device_of(&self, sector: u64) -> dm::DeviceIndex {
        self.devices[usize::from(sector >= AREA_SECTORS)]
    }
}

#[vtable]
impl<D: Data> dm::Target for Failed<D> {
    const NAME: &'static CStr = D::NAME;
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = D;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let first = args.required(c"missing device path")?;
        let second = args.required(c"missing device path")?;
        let what = args.one_of(&NAMES, c"unknown name")?;
        args.finish(c"too many arguments")?;

        let devices = [
            builder.get_device(first, 0)?,
            builder.get_device(second, 0)?,
        ];
        let queue = Workqueue::new(c"dm_failed", Flags::UNBOUND, 4)?;

        Ok(Ok::<Self, Error>(Self {
            devices,
            errors: [Atomic::new(0), Atomic::new(0)],
            readahead: Atomic::new(0),
            writes: Atomic::new(0),
            medium: Atomic::new(0),
            what,
            queue,
            _data: PhantomData,
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let sector = bio.target_sector();
        bio.data().set(sector);
        if matches!(self.what, What::Partial | What::PartialSubmit)
            && bio.accept_partial(NonZeroU32::MIN).is_err()
        {
            return bio.kill();
        }
        // The target is found by the data, too.
        let device = bio.target().get_ref().device_of(sector);
        match self.what {
            _ if !bio.data().is(sector) => bio.kill(),
            What::Remap | What::Partial => bio.remap(device, sector),
            What::Submit | What::PartialSubmit => {
                bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, submit))
            }
            What::End => bio.end(Err(BlkError::MEDIUM)),
            What::EndLater => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, end)),
        }
    }

    fn io_error(self: Pin<&Self>, error: dm::IoError) {
        for (device, errors) in self.devices.iter().zip(&self.errors) {
            if *device == error.device() {
                errors.fetch_add(1, Relaxed);
            }
        }
        for (is_counted, errors) in [
            (error.is_readahead(), &self.readahead),
            (error.op() == Op::Write, &self.writes),
            (error.error() == BlkError::MEDIUM, &self.medium),
        ] {
            if is_counted {
                errors.fetch_add(1, Relaxed);
            }
        }
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let [first, second] = &self.errors;
        for (name, errors) in [
            ("first", first),
            ("second", second),
            ("readahead", &self.readahead),
            ("writes", &self.writes),
            ("medium", &self.medium),
        ] {
            write!(out, "{name}={} ", errors.load(Relaxed))?;
        }
        write!(out, "live={}", LIVE.load(Relaxed))
    }
}

fn submit<D: Data>(mut bio: dm::Bio<Failed<D>>) {
    let sector = bio.target_sector();
    if !bio.data().is(sector) {
        return bio.end(Err(BlkError::PROTECTION));
    }
    let device = bio.target().get_ref().device_of(sector);
    bio.submit(device, sector);
}

fn end<D: Data>(bio: dm::Bio<Failed<D>>) {
    bio.end(Err(BlkError::MEDIUM));
}
