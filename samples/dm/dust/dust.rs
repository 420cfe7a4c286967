// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rdust` target.
//!
//! Fails reads of blocks until they are written, as `dust` does. It takes the same table lines and
//! messages, and prints the same answers, status and errors.
//!
//! Table line: `<start> <len> rdust <dev path> <start sector> <block size in bytes>`
//!
//! Messages: `addbadblock <block> [<failing writes>]`, `removebadblock <block>`, `queryblock
//! <block>`, `countbadblocks`, `clearbadblocks`, `listbadblocks`, `enable`, `disable`, `quiet`.
//!
//! C: `drivers/md/dm-dust.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Mutex, //
    }, //
};

use core::num::NonZeroU32;

use kscale::block::{
    bio::{
        Op,
        SECTOR_SIZE, //
    },
    dm, //
};

mod badblocks;
mod message;

use badblocks::BadBlocks;

module! {
    type: DustModule,
    name: "dm_rdust",
    authors: ["The kscale authors"],
    description: "Device-mapper sample that fails reads of bad blocks",
    license: "GPL",
}

struct DustModule {
    _registration: dm::Registration<Dust>,
}

impl kernel::Module for DustModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
#[pin_data]
struct Dust {
    device: dm::DeviceIndex,
    start_sectors: u64,
    block_sectors: NonZeroU32,
    /// The number of blocks of the line.
    n_blocks: u64,
    /// Whether bad blocks fail.
    is_enabled: Atomic<bool>,
    #[pin]
    bad: Mutex<BadBlocks>,
}

/// Returns the sectors of a block of `size` bytes, in a line of `len_sectors`.
fn sectors_of(size: u32, len_sectors: u64) -> Result<NonZeroU32, dm::CtrError> {
    const MAX_SECTORS: u64 = 2097152;
    let invalid = dm::CtrError::invalid;

    if size == 0 {
        return Err(invalid(c"Invalid block size parameter"));
    }
    let sectors =
        NonZeroU32::new(size / SECTOR_SIZE).ok_or(invalid(c"Block size must be at least 512"))?;
    if !size.is_power_of_two() {
        return Err(invalid(c"Block size must be a power of 2"));
    }
    if u64::from(sectors.get()) > len_sectors.min(MAX_SECTORS) {
        return Err(invalid(c"Block size is too large"));
    }
    Ok(sectors)
}

#[vtable]
impl dm::Target for Dust {
    const NAME: &'static CStr = c"rdust";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        const COUNT: &CStr = c"Invalid argument count";

        if args.len() != 3 {
            return Err(dm::CtrError::invalid(COUNT));
        }
        let path = args.required(COUNT)?;
        // As in C, an error of the next argument comes first.
        let start_sectors = args.parsed(c"Invalid device offset sector");
        let block_size = args.parsed(c"Invalid block size parameter")?;
        let block_sectors = sectors_of(block_size, builder.len_sectors())?;
        let start_sectors = start_sectors?;
        let device = builder
            .get_device(path, start_sectors)
            .map_err(|_| dm::CtrError::invalid(c"Device lookup failed"))?;

        builder.set_max_io_len(block_sectors);
        builder.set_num_discard_bios(1);
        builder.set_num_flush_bios(1);
        let n_blocks = builder.len_sectors().div_ceil(block_sectors.get().into());
        Ok(try_pin_init!(Self {
            device,
            start_sectors,
            block_sectors,
            n_blocks,
            is_enabled: Atomic::new(false),
            bad <- new_mutex!(BadBlocks::new()),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let sector = bio.target_sector();

        if self.is_enabled.load(Relaxed) {
            let block = sector / u64::from(self.block_sectors.get());
            let mut bad = self.bad.lock();
            let fails = match bio.op() {
                Op::Read => bad.fails_read(block),
                _ => bad.fails_write(block),
            };
            if fails {
                return bio.kill();
            }
        }
        // OVERFLOW: The whole line lies on the device, but a flush without data has no sector.
        bio.remap(self.device, sector.wrapping_add(self.start_sectors))
    }

    fn message(self: Pin<&Self>, args: dm::Args<'_>, out: &mut dm::StatusBuf<'_>) -> Result {
        self.handle(args, out)
    }

    fn prepare_ioctl(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        let enabled = match self.is_enabled.load(Relaxed) {
            true => "fail_read_on_bad_block",
            false => "bypass",
        };
        let quiet = match self.bad.lock().is_quiet() {
            true => "quiet",
            false => "verbose",
        };
        write!(out, "{device} {enabled} {quiet}")
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        // OVERFLOW: As large as the argument.
        let block_size = self.block_sectors.get().wrapping_mul(SECTOR_SIZE);
        write!(out, "{device} {} {block_size}", self.start_sectors)
    }
}
