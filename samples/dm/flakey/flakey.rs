// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rflakey` target.
//!
//! Is up for some seconds, and then down for some seconds, as `flakey` is. While it is down, it
//! fails, drops or corrupts bios. It takes the same table lines, and prints the same status and
//! errors.
//!
//! Table line: `<start> <len> rflakey <dev path> <start sector> <up interval> <down interval>
//! [<number of words> [<feature>]...]`, where a feature is one of
//!
//! - `error_reads`, `drop_writes`, `error_writes`,
//! - `corrupt_bio_byte <n> <r or w> <value> <flags>`: byte `n`, from 1 on, of bios with the flags,
//! - `random_read_corrupt <billionths>`, `random_write_corrupt <billionths>`: a random byte.
//!
//! Not supported, unlike in C: corrupt writes to zoned devices, as a worker sends these; inline
//! encryption of the layer above.
//!
//! C: `drivers/md/dm-flakey.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    }, //
};

use core::num::NonZeroU16;

use kscale::{
    block::{
        bio::{
            BioSet,
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

mod corruption;
mod features;
mod io;

use corruption::Corruption;
use features::Features;
use io::MAX_PAGES;

module! {
    type: FlakeyModule,
    name: "dm_rflakey",
    authors: ["The kscale authors"],
    description: "Device-mapper sample that fails from time to time",
    license: "GPL",
}

struct FlakeyModule {
    _registration: dm::Registration<Flakey>,
}

impl kernel::Module for FlakeyModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
#[pin_data]
struct Flakey {
    device: dm::DeviceIndex,
    start_sectors: u64,
    start: Instant<Monotonic>,
    up_s: u32,
    down_s: u32,
    features: Features,
    /// For writes that are corrupted: they get other memory.
    queue: Workqueue,
    #[pin]
    bios: BioSet,
    #[pin]
    pages: Mempool<Pages>,
}

#[vtable]
impl dm::Target for Flakey {
    const NAME: &'static CStr = c"rflakey";
    const VERSION: [u32; 3] = [1, 5, 0];

    type ModuleData = ();
    type PerBio = Corruption;

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        const COUNT: &CStr = c"Invalid argument count";
        let invalid = dm::CtrError::invalid;

        if args.len() < 4 {
            return Err(invalid(COUNT));
        }
        let start = Instant::now();
        let path = args.required(COUNT)?;
        let start_sectors = args.parsed(c"Invalid device sector")?;
        let up_s: u32 = args.parsed(c"Invalid up interval")?;
        let down_s = args.parsed(c"Invalid down interval")?;
        match up_s.wrapping_add(down_s) {
            0 => return Err(invalid(c"Total (up + down) interval is zero")),
            sum if sum < up_s => return Err(invalid(c"Interval overflow")),
            _ => {}
        }
        let features = Features::parse(&mut args)?;
        let device = builder
            .get_device(path, start_sectors)
            .map_err(|error| dm::CtrError::new(c"Device lookup failed", error))?;
        if features.corrupts_writes() && builder.is_zoned(device) {
            return Err(invalid(c"Corrupt writes to a zoned device"));
        }
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);

        let n_pages = if features.corrupts_writes() {
            MAX_PAGES
        } else {
            1
        };
        let queue = Workqueue::new(c"dm_rflakey", Flags::UNBOUND, 0)?;
        Ok(try_pin_init!(Self {
            device,
            start_sectors,
            start,
            up_s,
            down_s,
            features,
            queue,
            bios <- BioSet::new(NonZeroU16::MIN),
            pages <- Mempool::new(n_pages, Pages),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        self.get_ref().map_bio(bio)
    }

    fn end_io<'a>(mut bio: dm::EndBio<'a, Self>) -> dm::EndIoResult<'a, Self> {
        let corruption = *bio.data();
        if bio.op() == Op::Read && bio.result().is_ok() && !corruption.is_none() {
            let (_, data) = bio.segments_mut();
            corruption.apply(data);
        }
        bio.done()
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn prepare_ioctl(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        let (start_sectors, up_s, down_s) = (self.start_sectors, self.up_s, self.down_s);
        write!(out, "{device} {start_sectors} {up_s} {down_s} ")?;
        self.features.write(out)
    }
}
