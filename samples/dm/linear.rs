// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rlinear` target.
//!
//! Maps a linear range of a device, as `linear` does. It takes the same table lines, and prints the
//! same status and errors. All operations pass through it, also those of zoned devices.
//!
//! Table line: `<start> <len> rlinear <dev path> <start sector>`
//!
//! Not supported, unlike in C: DAX, integrity metadata and inline encryption of the layer above.
//!
//! C: `drivers/md/dm-linear.c`.

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*, //
};

use kscale::block::dm;

module! {
    type: LinearModule,
    name: "dm_rlinear",
    authors: ["The kscale authors"],
    description: "Device-mapper linear sample",
    license: "GPL",
}

struct LinearModule {
    _registration: dm::Registration<Linear>,
}

impl kernel::Module for LinearModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
struct Linear {
    device: dm::DeviceIndex,
    start_sectors: u64,
}

#[vtable]
impl dm::Target for Linear {
    const NAME: &'static CStr = c"rlinear";
    const VERSION: [u32; 3] = [1, 5, 0];
    const ATOMIC_WRITES: bool = true;
    const NOWAIT: bool = true;

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        const COUNT: &CStr = c"Invalid argument count";

        if args.len() != 2 {
            return Err(dm::CtrError::invalid(COUNT));
        }
        let path = args.required(COUNT)?;
        let start_sectors = args.parsed(c"Invalid device sector")?;
        let device = builder
            .get_device(path, start_sectors)
            .map_err(|error| dm::CtrError::new(c"Device lookup failed", error))?;

        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);
        builder.set_num_secure_erase_bios(1);
        builder.set_num_write_zeroes_bios(1);
        builder.set_flush_bypasses_map();
        Ok(Ok::<Self, Error>(Self {
            device,
            start_sectors,
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        // OVERFLOW: The whole line lies on the device, but a flush without data has no sector.
        let sector = bio.target_sector().wrapping_add(self.start_sectors);
        bio.remap(self.device, sector)
    }

    fn zones(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn prepare_ioctl(self: Pin<&Self>) -> dm::DeviceIndex {
        self.device
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        write!(out, "{device} {}", self.start_sectors)
    }

    fn status_ima(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        write!(out, ",device_name={device},start={};", self.start_sectors)
    }
}
