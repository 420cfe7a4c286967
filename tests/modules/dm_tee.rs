// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `tee`: sends each bio to two devices at the same time, for tests.
//!
//! Table line: `<start> <len> tee <dev path> <dev path> <what>`, where `what` is one of the names
//! below. A read is sent to the first device only.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

use core::num::NonZeroU16;

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            BlkResult,
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
    type: TeeModule,
    name: "dm_tee",
    authors: ["The kscale authors"],
    description: "Device-mapper target with several clones of a bio for tests of the library",
    license: "GPL",
}

struct TeeModule {
    _tee: dm::Registration<Tee>,
}

impl kernel::Module for TeeModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _tee: dm::Registration::new(())?,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The bio succeeds if a device succeeds.
    Any,
    /// The bio fails with the first error of a device.
    All,
    /// Drop the clone for the second device.
    Drop,
    /// Send the clones from `map`.
    InMap,
}

const NAMES: [(&str, What); 4] = [
    ("any", What::Any),
    ("all", What::All),
    ("drop", What::Drop),
    ("in_map", What::InMap),
];

/// The number of devices that completed the bio without an error.
struct Successes(Atomic<u32>);

impl Default for Successes {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

#[pin_data]
struct Tee {
    devices: [dm::DeviceIndex; 2],
    what: What,
    queue: Workqueue,
    #[pin]
    bios: BioSet,
}

#[vtable]
impl dm::Target for Tee {
    const NAME: &'static CStr = c"tee";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = Successes;

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
        let queue = Workqueue::new(c"dm_tee", Flags::UNBOUND, 4)?;
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);
        builder.set_num_secure_erase_bios(1);
        builder.set_num_write_zeroes_bios(1);

        Ok(try_pin_init!(Self {
            devices,
            what,
            queue,
            // In `map`, both clones of a bio are in use before the first is sent.
            bios <- BioSet::new(const { NonZeroU16::new(64).unwrap() }),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        match self.what {
            What::InMap => bio.defer(send),
            _ => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, send)),
        }
    }
}

/// Sends the clones of a bio.
fn send(bio: dm::Bio<Tee>) {
    let target = bio.target();
    let (devices, what) = (target.devices, target.what);
    let sector = bio.target_sector();
    let parent = bio.into_parent(end);

    for (number, device) in devices.into_iter().enumerate() {
        if number > 0 && parent.op() == Op::Read {
            break;
        }
        match parent.share(|target| &target.get_ref().bios) {
            Some(child) if number > 0 && what == What::Drop => drop(child),
            Some(child) => child.submit(device, sector, completed),
            None => parent.set_error(BlkError::RESOURCE),
        }
    }
}

/// Handles the completion of a clone.
fn completed(parent: dm::IrqParentBio<Tee>, device: dm::DeviceIndex, result: BlkResult) {
    let target = parent.target();
    // `device` is a device of this target.
    let is_own = target.devices.contains(&device);

    match result {
        Ok(()) if is_own => parent.data().0.add(1, Relaxed),
        Ok(()) => parent.set_error(BlkError::NOTSUPP),
        Err(error) if target.what == What::All => parent.set_error(error),
        Err(_) => {}
    }
}

/// Ends a bio after its last clone.
fn end(mut bio: dm::IrqBio<Tee>, result: BlkResult) {
    let successes = bio.data().0.load(Relaxed);

    bio.end(match result {
        Ok(()) if successes == 0 => Err(BlkError::IOERR),
        result => result,
    });
}
