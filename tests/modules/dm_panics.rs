// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `panics`: a read that waits for a device below, whose `map` panics, for
//! tests.
//!
//! Table line: `<start> <len> panics <dev path> <what>`, where `what` is one of the names below.
//!
//! - `read`: a function on a queue reads the device into a clone;
//! - `panic`: if the bio has one sector, a function on a queue ends it with an error after a
//!   second, and `map` panics. Other bios end with an error: programs read new devices.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use core::num::NonZeroU16;

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError, //
        },
        dm, //
    },
    mm::mempool::{
        Mempool,
        Pages, //
    },
    sync::workqueue::{
        Flags,
        Workqueue, //
    }, //
};

module! {
    type: PanicsModule,
    name: "dm_panics",
    authors: ["The kscale authors"],
    description: "Device-mapper target that panics below a read, for tests",
    license: "GPL",
}

struct PanicsModule {
    _registration: dm::Registration<Panics>,
}

impl kernel::Module for PanicsModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

const SECTOR_BYTES: u32 = 512;

const NAMES: [(&str, bool); 2] = [("read", false), ("panic", true)];

#[pin_data]
struct Panics {
    device: dm::DeviceIndex,
    panics: bool,
    queue: Workqueue,
    #[pin]
    bios: BioSet,
    #[pin]
    pages: Mempool<Pages>,
}

#[vtable]
impl dm::Target for Panics {
    const NAME: &'static CStr = c"panics";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        (): &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let panics = args.one_of(&NAMES, c"unknown name")?;
        let device = builder.get_device(path, 0)?;
        let queue = Workqueue::new(c"dm_panics", Flags::UNBOUND, 0)?;

        Ok(try_pin_init!(Self {
            device,
            panics,
            queue,
            bios <- BioSet::new(NonZeroU16::MIN),
            pages <- Mempool::new(1, Pages::<0>),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if !self.panics {
            return bio.defer(|bio| bio.queue(queue, read));
        }
        if bio.len_bytes() != SECTOR_BYTES {
            return bio.end(Err(BlkError::IOERR));
        }
        let _result = bio.defer(|bio| bio.queue(queue, end_late));
        panic!("as requested");
    }
}

fn queue(target: Pin<&Panics>) -> &Workqueue {
    &target.get_ref().queue
}

/// Reads the sectors of a bio into a clone.
fn read(bio: dm::Bio<Panics>) {
    let (device, sector) = (bio.target().device, bio.target_sector());
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    match bounced.map(|clone| clone.read(device, sector)) {
        Ok(Ok(clone)) => clone.into_base().end(Ok(())),
        Ok(Err((bio, error))) => bio.end(Err(error)),
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}

/// Ends a bio after the task that has sent it is gone.
fn end_late(bio: dm::Bio<Panics>) {
    fsleep(Delta::from_secs(1));
    bio.end(Err(BlkError::IOERR));
    pr_info!("ended the bio\n");
}
