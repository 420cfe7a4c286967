// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `offset` target.
//!
//! Shifts every bio by a fixed number of sectors and counts what passes. It is the smallest target
//! that owns a device, keeps state and reports status.
//!
//! Table line: `<start> <len> offset <dev path> <offset in sectors>`
//!
//! ```sh
//! dmsetup create shifted --table '0 2048 offset /dev/ram0 64'
//! dmsetup status shifted    # 0 2048 offset mapped=0
//! ```

#![forbid(unsafe_code)]

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*, //
};

use kscale::{
    block::dm,
    percpu::counter::PerCpuCounter, //
};

module! {
    type: OffsetModule,
    name: "dm_offset",
    authors: ["The kscale authors"],
    description: "Device-mapper offset sample",
    license: "GPL",
}

struct OffsetModule {
    _registration: dm::Registration<Offset>,
}

impl kernel::Module for OffsetModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

/// A target instance, built from one table line.
#[pin_data]
struct Offset {
    device: dm::DeviceIndex,
    offset_sectors: u64,
    /// Bios passed to `map`. Statistics only, hence per-CPU.
    #[pin]
    mapped: PerCpuCounter,
}

#[vtable]
impl dm::Target for Offset {
    const NAME: &'static CStr = c"offset";
    const VERSION: [u32; 3] = [1, 0, 0];

    type ModuleData = ();

    /// The target has no per-bio data.
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        mut args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        let path = args.required(c"missing device path")?;
        let offset_sectors = args.parsed(c"invalid offset in sectors")?;
        args.finish(c"too many arguments")?;

        // Device mapper rejects the table unless the whole target lies on the device.
        let device = builder
            .get_device(path, offset_sectors)
            .map_err(|error| dm::CtrError::new(c"Device lookup failed", error))?;
        builder.set_num_flush_bios(1);
        builder.set_num_discard_bios(1);

        Ok(try_pin_init!(Self {
            device,
            offset_sectors,
            mapped <- PerCpuCounter::new(0),
        }))
    }

    fn map<'a>(self: Pin<&Self>, bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        // OVERFLOW: The whole target lies on the device, but a flush has no sector.
        let sector = bio.target_sector().wrapping_add(self.offset_sectors);

        self.mapped.add(1);
        bio.remap(self.device, sector)
    }

    fn status_info(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "mapped={}", self.mapped.sum())
    }

    fn status_table(self: Pin<&Self>, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        write!(out, "{device} {}", self.offset_sectors)
    }
}
