// SPDX-License-Identifier: GPL-2.0

//! Device-mapper target `plain`: a target without per-bio data and without `end_io`, for tests.
//!
//! Table line: `<start> <len> plain <dev path> <what>`, where `what` is one of the names below.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use core::num::{
    NonZeroU16,
    NonZeroU32, //
};

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            Op, //
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
    type: PlainModule,
    name: "dm_plain",
    authors: ["The kscale authors"],
    description: "Device-mapper target without per-bio data for tests of the library",
    license: "GPL",
}

struct PlainModule {
    _plain: dm::Registration<Plain>,
}

impl kernel::Module for PlainModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _plain: dm::Registration::new(())?,
        })
    }
}

/// The action for a bio.
#[derive(Clone, Copy)]
enum What {
    /// Remap it to the device.
    Remap,
    /// Visit its data and memory, accept one sector, and remap it.
    Partial,
    /// Accept one sector, and submit it later, from a worker.
    Submit,
    /// Accept one sector. Submit a clone of a write with bounce pages and a copy of the data, and
    /// remap a read.
    Bounce,
    /// End it without an error.
    End,
    /// End it with [`BlkError::NOTSUPP`].
    Refuse,
    /// Kill it.
    Kill,
    /// Requeue it.
    Requeue,
    /// Drop it.
    Drop,
}

const NAMES: [(&str, What); 9] = [
    ("remap", What::Remap),
    ("partial", What::Partial),
    ("submit", What::Submit),
    ("bounce", What::Bounce),
    ("end", What::End),
    ("refuse", What::Refuse),
    ("kill", What::Kill),
    ("requeue", What::Requeue),
    ("drop", What::Drop),
];

#[pin_data]
struct Plain {
    device: dm::DeviceIndex,
    what: What,
    queue: Workqueue,
    #[pin]
    bios: BioSet,
    #[pin]
    pages: Mempool<Pages>,
}

#[vtable]
impl dm::Target for Plain {
    const NAME: &'static CStr = c"plain";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let what = args.one_of(&NAMES, c"unknown name")?;
        args.finish(c"too many arguments")?;

        let device = builder.get_device(path, 0)?;
        let queue = Workqueue::new(c"dm_plain", Flags::UNBOUND, 4)?;

        Ok(try_pin_init!(Self {
            device,
            what,
            queue,
            bios <- BioSet::new(NonZeroU16::MIN),
            pages <- Mempool::new(1, Pages::<0>),
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if matches!(self.what, What::Partial | What::Submit | What::Bounce)
            && bio.accept_partial(NonZeroU32::MIN).is_err()
        {
            return bio.kill();
        }
        let sector = bio.target_sector();

        match self.what {
            What::Bounce if bio.op() == Op::Write => bio.defer(|bio| bio.queue(queue, bounce)),
            What::Remap | What::Bounce => bio.remap(self.device, sector),
            What::Partial => {
                *bio.data() = ();
                let is_read = bio.op() == Op::Read;
                let len_bytes = bio.len_bytes();
                let writable = if is_read { len_bytes } else { 0 };
                if bio.segments().remaining_bytes() != len_bytes
                    || bio.segments_mut().1.remaining_bytes() != writable
                {
                    return bio.kill();
                }
                bio.remap(self.device, sector)
            }
            What::Submit => bio.defer(|bio| bio.queue(queue, submit)),
            What::End => bio.end(Ok(())),
            What::Refuse => bio.end(Err(BlkError::NOTSUPP)),
            What::Kill => bio.kill(),
            What::Requeue => bio.requeue(),
            What::Drop => bio.defer(drop),
        }
    }
}

fn queue(target: Pin<&Plain>) -> &Workqueue {
    &target.get_ref().queue
}

/// Sends a bio to its sector.
fn submit(bio: dm::Bio<Plain>) {
    let (device, sector) = (bio.target().device, bio.target_sector());
    bio.submit(device, sector);
}

/// Sends a clone with a copy of the data of a bio to its sector.
fn bounce(bio: dm::Bio<Plain>) {
    let (device, sector) = (bio.target().device, bio.target_sector());
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    match bounced {
        Ok(mut clone) => {
            let (_, data, mut own) = clone.segments();
            // If this fails, the clone of a write is not submitted.
            let _ = own.copy_from(data);
            clone.submit(device, sector, dm::IrqBio::end);
        }
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}
