// SPDX-License-Identifier: GPL-2.0

//! Cost of the calls of a device-mapper target: a part of the benchmark `wrappers`.
//!
//! Table line: `<start> <len> bench <dev path> <work>`. `work` is one of the names below, and
//! selects how the target handles a bio. `bench/twins/targets.c` is the twin in C, the target
//! `bench_c`.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use core::{
    hint::black_box,
    num::{
        NonZeroU16,
        NonZeroU32, //
    }, //
};

use kscale::{
    block::{
        bio::{
            BioSet,
            BlkError,
            Op,
            Segments, //
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
    type: TargetsModule,
    name: "bench_targets",
    authors: ["The kscale authors"],
    description: "Cost of the calls of a device-mapper target",
    license: "GPL",
}

struct TargetsModule {
    _registration: dm::Registration<Bench>,
}

impl kernel::Module for TargetsModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// Number of pages of the largest bio, and of the reserve.
const MAX_PAGES: usize = 256;

/// How the target handles a bio.
#[derive(Clone, Copy)]
enum What {
    /// Remap the bio.
    Remap,
    /// Visit each segment, and remap the bio.
    Segments,
    /// Remap the bio in a worker.
    Queue,
    /// Submit a clone that shares the pages of the bio.
    Share,
    /// Submit a clone with bounce pages.
    Bounce,
    /// Complete the bio.
    End,
}

const NAMES: [(&str, What); 6] = [
    ("remap", What::Remap),
    ("segments", What::Segments),
    ("queue", What::Queue),
    ("share", What::Share),
    ("bounce", What::Bounce),
    ("end", What::End),
];

#[derive(Default)]
struct PerBio {
    sector: u64,
}

#[pin_data]
struct Bench {
    device: dm::DeviceIndex,
    what: What,
    queue: Workqueue,
    #[pin]
    bios: BioSet,
    #[pin]
    pages: Mempool<Pages>,
}

#[vtable]
impl dm::Target for Bench {
    const NAME: &'static CStr = c"bench";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = PerBio;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let what = args.one_of(&NAMES, c"unknown name")?;
        args.finish(c"too many arguments")?;

        let device = builder.get_device(path, 0)?;
        let queue = Workqueue::new(c"bench_targets", Flags::PERCPU, 0)?;

        Ok(try_pin_init!(Self {
            device,
            what,
            queue,
            bios <- BioSet::new(NonZeroU16::MIN),
            pages <- Mempool::new(MAX_PAGES, Pages::<0>),
        }))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let sector = bio.target_sector();
        bio.data().sector = sector;

        match self.what {
            What::Remap => bio.remap(self.device, sector),
            What::Segments => {
                look_at(bio.segments());
                bio.remap(self.device, sector)
            }
            What::Queue => bio.defer(|bio| bio.queue(queue, submit)),
            What::Share => bio.defer(share),
            What::Bounce => bio.defer(bounce),
            What::End => bio.end(Ok(())),
        }
    }

    fn end_io<'a>(bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        bio.done()
    }
}

/// Visits each segment.
#[inline]
fn look_at(mut segments: Segments<'_>) {
    while let Some(segment) = segments.next_segment(NonZeroU32::MAX) {
        black_box(segment.len());
    }
}

fn queue(target: Pin<&Bench>) -> &Workqueue {
    &target.get_ref().queue
}

/// Remaps and submits a bio.
fn submit(mut bio: dm::Bio<Bench>) {
    let sector = bio.data().sector;
    let device = bio.target().device;
    bio.submit(device, sector);
}

/// Submits a clone that shares the pages of a bio.
fn share(mut bio: dm::Bio<Bench>) {
    let sector = bio.data().sector;
    let device = bio.target().device;
    match bio.share(|target| &target.get_ref().bios) {
        Ok(clone) => clone.submit(device, sector, dm::IrqBio::end),
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}

/// Submits a clone with bounce pages, for a write with a copy of the data.
fn bounce(mut bio: dm::Bio<Bench>) {
    let is_write = bio.op() == Op::Write;
    let sector = bio.data().sector;
    let device = bio.target().device;
    let bounced = bio.bounce(|target| {
        let target = target.get_ref();
        (&target.bios, &target.pages)
    });
    match bounced {
        Ok(mut clone) => {
            let (_, data, mut own) = clone.segments();
            if is_write {
                // After a failed copy the clone is not submitted.
                let _ = own.copy_from(data);
            }
            clone.submit(device, sector, dm::IrqBio::end);
        }
        Err(bio) => bio.end(Err(BlkError::RESOURCE)),
    }
}
