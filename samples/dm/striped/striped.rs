// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rstriped` target.
//!
//! Distributes chunks over several devices (RAID 0), as `striped` does. It takes the same table
//! lines, prints the same status and errors, and triggers an event when a device fails.
//!
//! Table line: `<start> <len> rstriped <stripes> <chunk sectors> [<dev path> <start sector>]...`
//!
//! Not supported, unlike in C: DAX, integrity metadata and inline encryption of the layer above.
//!
//! C: `drivers/md/dm-stripe.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt,
    num::casts::FromSafeCast,
    prelude::*,
    sync::atomic::Atomic, //
};

use core::num::NonZeroU32;

use kscale::block::{
    bio::{
        BlkError,
        Op,
        SECTOR_SIZE, //
    },
    dm, //
};

mod layout;
mod status;

use layout::Layout;

module! {
    type: StripedModule,
    name: "dm_rstriped",
    authors: ["The kscale authors"],
    description: "Device-mapper striped sample",
    license: "GPL",
}

struct StripedModule {
    _registration: dm::Registration<Striped>,
}

impl kernel::Module for StripedModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// The area of a device that has the chunks of one stripe.
struct Stripe {
    device: dm::DeviceIndex,
    start_sectors: u64,
    errors: Atomic<u32>,
}

/// A target instance, built from one table line.
struct Striped {
    layout: Layout,
    stripes: KVec<Stripe>,
    event: dm::TableEvent,
}

impl Striped {
    fn stripe(&self, index: u32) -> Option<&Stripe> {
        self.stripes.get(usize::from_safe_cast(index))
    }

    /// Sends a bio without data to the part of its range that is on its stripe.
    fn map_range<'a>(&self, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let index = bio.target_bio_nr();
        let Some(stripe) = self.stripe(index) else {
            return bio.kill();
        };
        // OVERFLOW: The bio is in the line, and the area of the stripe on its device.
        let (first, len) = (bio.target_sector(), bio.len_bytes() / SECTOR_SIZE);
        let begin = self.layout.locate_on(index, first);
        let end = self.layout.locate_on(index, first.wrapping_add(len.into()));
        let sector = begin.wrapping_add(stripe.start_sectors);

        match u32::try_from(end.saturating_sub(begin)).map(NonZeroU32::new) {
            Ok(Some(n_sectors)) => bio.remap_range(stripe.device, sector, n_sectors),
            // No part of the range is on the stripe.
            Ok(None) => bio.end(Ok(())),
            Err(_) => bio.kill(),
        }
    }
}

#[vtable]
impl dm::Target for Striped {
    const NAME: &'static CStr = c"rstriped";
    const VERSION: [u32; 3] = [1, 7, 0];
    const ATOMIC_WRITES: bool = true;
    const NOWAIT: bool = true;

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        const DESTINATION: &CStr = c"Couldn't parse stripe destination";

        let layout = Layout::parse(&mut args, builder.len_sectors())?;
        let n_bios = u16::try_from(layout.stripes.get())
            .map_err(|_| dm::CtrError::invalid(c"Invalid stripe count"))?;
        builder.set_max_io_len(layout.chunk_sectors);
        builder.set_num_flush_bios(n_bios);
        builder.set_num_discard_bios(n_bios);
        builder.set_num_secure_erase_bios(n_bios);
        builder.set_num_write_zeroes_bios(n_bios);
        builder.set_flush_bypasses_map();

        let mut stripes = KVec::with_capacity(n_bios.into(), GFP_KERNEL)?;
        while let Some(path) = args.next() {
            let start_sectors = args.parsed(DESTINATION)?;
            let stripe = Stripe {
                device: builder
                    .get_device_area(path, start_sectors, layout.width_sectors)
                    .map_err(|error| dm::CtrError::new(DESTINATION, error))?,
                start_sectors,
                errors: Atomic::new(0),
            };
            stripes.push(stripe, GFP_KERNEL)?;
        }
        let event = builder.event()?;
        Ok(Ok::<Self, Error>(Self {
            layout,
            stripes,
            event,
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        if matches!(bio.op(), Op::Discard | Op::SecureErase | Op::WriteZeroes) {
            return self.map_range(bio);
        }
        let (index, sector) = match bio.len_bytes() {
            // A flush of one stripe. Its sector means nothing.
            0 => (bio.target_bio_nr(), 0),
            _ => self.layout.locate(bio.target_sector()),
        };
        let Some(stripe) = self.stripe(index) else {
            return bio.kill();
        };
        // OVERFLOW: The area of the stripe is on its device.
        bio.remap(stripe.device, sector.wrapping_add(stripe.start_sectors))
    }

    fn io_error(self: Pin<&Self>, error: dm::IoError) {
        if !error.is_readahead() && error.error() != BlkError::NOTSUPP {
            self.count_error(error.device());
        }
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        limits.set_chunk_sectors(self.layout.chunk_sectors);
        if let Some((io_min, io_opt)) = self.layout.io_bytes(SECTOR_SIZE) {
            limits.set_io_min(io_min);
            limits.set_io_opt(io_opt);
        }
        let max = limits.max_hw_discard_sectors();
        limits.set_max_hw_discard_sectors(self.layout.max_discard(max, u32::MAX / SECTOR_SIZE));
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.write_info(out)
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.write_table(out)
    }

    fn status_ima(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        self.write_ima(out)
    }
}
