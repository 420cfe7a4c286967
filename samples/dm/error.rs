// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rerror` target.
//!
//! Ends each bio with an I/O error, as `error` does. With a device, the mapped device has the
//! limits of that device.
//!
//! Table line: `<start> <len> rerror [<dev path> <start sector>]`
//!
//! Not supported, unlike in C: zoned devices, and replacing a request-based table (the feature
//! `DM_TARGET_WILDCARD`), for which a target needs functions that map requests.
//!
//! C: `drivers/md/dm-target.c`.

#![forbid(unsafe_code)]

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::block::{
    bio::SECTOR_SIZE,
    dm, //
};

module! {
    type: ErrorModule,
    name: "dm_rerror",
    authors: ["The kscale authors"],
    description: "Device-mapper sample that fails all I/O",
    license: "GPL",
}

struct ErrorModule {
    _registration: dm::Registration<AlwaysError>,
}

impl kernel::Module for ErrorModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance. It has no state: nothing is sent to the device.
struct AlwaysError;

#[vtable]
impl dm::Target for AlwaysError {
    const NAME: &'static CStr = c"rerror";
    const VERSION: [u32; 3] = [1, 7, 0];

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        // As in C, any other number of arguments means no device.
        if args.len() == 2 {
            let path = args.required(c"Device lookup failed")?;
            let start_sectors = args.parsed(c"Invalid device sector")?;
            builder
                .get_device(path, start_sectors)
                .map_err(|error| dm::CtrError::new(c"Device lookup failed", error))?;
        }
        // Otherwise, discards would fail with `EOPNOTSUPP`.
        builder.set_num_discard_bios(1);
        builder.set_discards_supported();
        Ok(Ok::<Self, Error>(Self))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        bio.kill()
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        limits.set_max_hw_discard_sectors(u32::MAX);
        limits.set_discard_granularity(NonZeroU32::new(SECTOR_SIZE).unwrap_or(NonZeroU32::MIN));
    }
}
