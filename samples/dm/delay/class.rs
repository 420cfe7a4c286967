// SPDX-License-Identifier: GPL-2.0

//! The bios that are delayed, with the same delay for all bios of a class.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    new_mutex,
    prelude::*,
    sync::Mutex,
    time::{
        Delta,
        Instant, //
    }, //
};

use kscale::block::dm;

use crate::Delay;

/// Three words of a table line.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) device: dm::DeviceIndex,
    start_sectors: u64,
    delay_ms: u32,
}

/// The bios that are delayed, in the order of their arrival.
struct Delayed {
    bios: dm::BioList<Delay>,
    count: u32,
    may_delay: bool,
}

/// A class of bios, all with the same delay.
#[pin_data]
pub(crate) struct Class {
    pub(crate) words: Words,
    #[pin]
    delayed: Mutex<Delayed>,
}

impl Words {
    /// Parses three words, and opens the device.
    pub(crate) fn parse(
        builder: &mut dm::TargetBuilder<'_>,
        args: &mut dm::Args<'_>,
    ) -> Result<Self, dm::CtrError> {
        const LOOKUP: &CStr = c"Device lookup failed";

        let path = args.required(LOOKUP)?;
        let start_sectors = args.parsed(c"Invalid device sector")?;
        let delay_ms = args.parsed(c"Invalid delay")?;
        let device = builder
            .get_device(path, start_sectors)
            .map_err(|error| dm::CtrError::new(LOOKUP, error))?;
        Ok(Self {
            device,
            start_sectors,
            delay_ms,
        })
    }

    /// Writes the words again.
    pub(crate) fn write(self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let device = out.device_name(self.device).unwrap_or_default();
        write!(out, "{device} {} {}", self.start_sectors, self.delay_ms)
    }
}

impl Class {
    /// Creates a class without bios.
    pub(crate) fn new(words: Words) -> impl PinInit<Self> {
        pin_init!(Self {
            words,
            delayed <- new_mutex!(Delayed {
                bios: dm::BioList::new(),
                count: 0,
                may_delay: true,
            }),
        })
    }

    /// Returns the delay of each bio.
    fn delay(&self) -> Delta {
        Delta::from_millis(self.words.delay_ms.into())
    }

    /// Returns the number of bios that are delayed.
    pub(crate) fn count(&self) -> u32 {
        self.delayed.lock().count
    }

    /// Sets whether bios that arrive are delayed.
    pub(crate) fn set_may_delay(&self, may_delay: bool) {
        self.delayed.lock().may_delay = may_delay;
    }

    /// Delays a bio, or sends it to the device.
    pub(crate) fn map<'a>(
        &self,
        work: &dm::DelayedWork,
        mut bio: dm::MapBio<'a, Delay>,
    ) -> dm::MapResult<'a, Delay> {
        // Without a delay, a bio needs no lock.
        if self.words.delay_ms != 0 {
            let mut delayed = self.delayed.lock();
            if delayed.may_delay {
                bio.data().0 = Some(Instant::now());
                delayed.count += 1;
                work.queue(self.delay());
                return bio.defer(|bio| delayed.bios.push(bio));
            }
        }
        let sector = self.sector(bio.target_sector());
        bio.remap(self.words.device, sector)
    }

    /// Returns the sector on the device.
    fn sector(&self, target_sector: u64) -> u64 {
        // OVERFLOW: The whole line lies on the device, but a flush without data has no sector.
        target_sector.wrapping_add(self.words.start_sectors)
    }

    /// Submits the bios whose delay is over, or all. Returns the delay that is left of the next.
    pub(crate) fn submit(&self, all: bool) -> Option<Delta> {
        loop {
            let mut delayed = self.delayed.lock();
            let arrival = delayed.bios.first_data()?.0?;
            let left = self.delay() - arrival.elapsed();
            if !all && left.as_nanos() > 0 {
                return Some(left);
            }
            let bio = delayed.bios.pop()?;
            delayed.count -= 1;
            drop(delayed);
            let sector = self.sector(bio.target_sector());
            bio.submit(self.words.device, sector);
        }
    }
}
