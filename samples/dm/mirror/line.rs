// SPDX-License-Identifier: GPL-2.0

//! The table line of a mirror.

use kernel::{
    prelude::*,
    sync::atomic::Atomic, //
};

use core::{
    num::NonZeroU32,
    ops::RangeInclusive, //
};

use kscale::block::{
    bio::SECTOR_SIZE,
    dm, //
};

/// A leg: the area of a device that has a copy of the data.
pub(crate) struct Leg {
    pub(crate) device: dm::DeviceIndex,
    pub(crate) start_sectors: u64,
    /// The numbers of failures of each kind, see `Failure`.
    pub(crate) errors: [Atomic<u32>; 3],
}

/// A table line.
pub(crate) struct Line {
    len_sectors: u64,
    pub(crate) region_sectors: NonZeroU32,
    pub(crate) n_regions: u64,
    /// `sync` or `nosync`.
    pub(crate) sync: Option<bool>,
    pub(crate) legs: [Leg; 2],
    pub(crate) handles_errors: bool,
    pub(crate) keeps_log: bool,
}

impl Leg {
    fn parse(
        builder: &mut dm::TargetBuilder<'_>,
        args: &mut dm::Args<'_>,
    ) -> Result<Self, dm::CtrError> {
        let path = args.required(c"Too few mirror arguments")?;
        let start_sectors = args.parsed(c"Invalid offset")?;
        let device = builder
            .get_device(path, start_sectors)
            .map_err(|error| dm::CtrError::new(c"Device lookup failure", error))?;
        Ok(Self {
            device,
            start_sectors,
            errors: [const { Atomic::new(0) }; 3],
        })
    }
}

impl Line {
    /// Parses a line. C: `mirror_ctr()`, and `create_log_context()` in `drivers/md/dm-log.c`.
    pub(crate) fn parse(
        builder: &mut dm::TargetBuilder<'_>,
        args: &mut dm::Args<'_>,
    ) -> Result<Self, dm::CtrError> {
        const FEW: &CStr = c"Insufficient mirror log arguments";
        const LOG: &CStr = c"Error creating mirror dirty log";
        const MIRRORS: &CStr = c"Invalid number of mirrors";
        const FEATURE: &CStr = c"Unrecognised feature requested";
        let invalid = |message| Err(dm::CtrError::invalid(message));

        if args.len() < 2 {
            return invalid(FEW);
        }
        let log_type = args.required(FEW)?;
        let n_log_args: usize = args.parsed(c"Invalid mirror log argument count")?;
        if n_log_args > args.len() {
            return invalid(FEW);
        }
        if log_type.to_bytes() != b"core" || !(1..=2).contains(&n_log_args) {
            return invalid(LOG);
        }
        let len_sectors = builder.len_sectors();
        let region_sectors: NonZeroU32 = args.parsed(LOG)?;
        let is_short = u64::from(region_sectors.get()) <= len_sectors;
        if !is_short || region_sectors.get() < 2 || !region_sectors.is_power_of_two() {
            return invalid(LOG);
        }
        let sync = match n_log_args {
            1 => None,
            _ => match args.required(LOG)?.to_bytes() {
                b"sync" => Some(true),
                b"nosync" => Some(false),
                _ => return invalid(LOG),
            },
        };
        if args.parsed::<u32>(MIRRORS)? != 2 {
            return invalid(MIRRORS);
        }
        if args.len() < 4 {
            return invalid(c"Too few mirror arguments");
        }
        let legs = [Leg::parse(builder, args)?, Leg::parse(builder, args)?];

        let (mut handles_errors, mut keeps_log) = (false, false);
        if args.len() > 0 {
            let n_features: usize = args.parsed(c"Invalid number of features")?;
            if n_features > args.len() {
                return invalid(c"Not enough arguments to support feature count");
            }
            for _ in 0..n_features {
                match args.required(FEATURE)?.to_bytes() {
                    b"handle_errors" => handles_errors = true,
                    b"keep_log" => keeps_log = true,
                    _ => return invalid(FEATURE),
                }
            }
        }
        if keeps_log && !handles_errors {
            return invalid(c"keep_log feature requires the handle_errors feature");
        }
        args.finish(c"Too many mirror arguments")?;
        Ok(Self {
            len_sectors,
            region_sectors,
            n_regions: len_sectors.div_ceil(region_sectors.get().into()),
            sync,
            legs,
            handles_errors,
            keeps_log,
        })
    }

    /// Returns the region of a sector.
    pub(crate) fn region(&self, sector: u64) -> u64 {
        sector / u64::from(self.region_sectors.get())
    }

    /// Returns the regions of a bio.
    pub(crate) fn regions(&self, sector: u64, len_bytes: u32) -> RangeInclusive<u64> {
        let n_sectors = u64::from(len_bytes / SECTOR_SIZE);
        let last = sector.saturating_add(n_sectors.saturating_sub(1));
        self.region(sector)..=self.region(last)
    }

    /// Returns the device of a leg, and the sector on it.
    pub(crate) fn locate(&self, leg: usize, sector: u64) -> (dm::DeviceIndex, u64) {
        let leg = &self.legs[leg];
        // OVERFLOW: The leg is on its device.
        (leg.device, sector.wrapping_add(leg.start_sectors))
    }

    /// Returns the area of a region on a leg.
    pub(crate) fn area(&self, leg: usize, region: u64) -> dm::Region {
        let region_sectors = u64::from(self.region_sectors.get());
        // OVERFLOW: At most the length of the line.
        let start = region.wrapping_mul(region_sectors);
        let (device, sector) = self.locate(leg, start);
        dm::Region {
            device,
            sector,
            n_sectors: self.len_sectors.saturating_sub(start).min(region_sectors),
        }
    }

    /// Returns the leg of a device.
    pub(crate) fn leg_of(&self, device: dm::DeviceIndex) -> Option<usize> {
        self.legs.iter().position(|leg| leg.device == device)
    }
}
