// SPDX-License-Identifier: GPL-2.0

//! Bios of a device that is up or down.

use kernel::time::NSEC_PER_SEC;

use core::num::NonZeroU32;

use kscale::block::{
    bio::{
        BlkError,
        Op, //
    },
    dm, //
};

use crate::{
    corruption::{
        random_byte,
        CorruptByte,
        Corruption, //
    },
    Flakey, //
};

/// The most pages and sectors of a write that is corrupted. A longer write is split.
pub(crate) const MAX_PAGES: usize = 256;
const MAX_SECTORS: NonZeroU32 = match NonZeroU32::new(2048) {
    Some(sectors) => sectors,
    None => NonZeroU32::MIN,
};

impl Flakey {
    /// Returns whether the device is down.
    fn is_down(&self) -> bool {
        let elapsed_s = self.start.elapsed().as_nanos() / NSEC_PER_SEC;
        // `ctr` has checked that the sum is neither 0 nor too large.
        (elapsed_s.unsigned_abs())
            .checked_rem(self.up_s.wrapping_add(self.down_s).into())
            .is_some_and(|now_s| now_s >= self.up_s.into())
    }

    /// Returns the bytes to change in a bio.
    fn corruption(&self, bio: &dm::MapBio<'_, Self>) -> Corruption {
        let (opf, is_write) = (bio.opf(), bio.op() == Op::Write);
        let matches =
            |byte: &CorruptByte| byte.is_write == is_write && opf & byte.flags == byte.flags;
        let probability = match is_write {
            true => self.features.random_write,
            false => self.features.random_read,
        };
        let fixed = self.features.byte.filter(matches);
        Corruption {
            fixed: fixed.map(|byte| (byte.nth.get() - 1, byte.value)),
            random: random_byte(probability, bio.len_bytes()),
        }
    }

    /// Returns the sector on the device.
    fn sector(&self, target_sector: u64) -> u64 {
        // OVERFLOW: The whole line lies on the device, but a flush without data has no sector.
        target_sector.wrapping_add(self.start_sectors)
    }

    /// Maps a bio.
    pub(crate) fn map_bio<'a>(&self, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        let (op, features) = (bio.op(), &self.features);
        let sector = self.sector(bio.target_sector());

        if op == Op::ZoneManagement || !self.is_down() {
            return bio.remap(self.device, sector);
        }
        match op {
            Op::Read if features.error_reads => return bio.kill(),
            Op::Read => {}
            _ if features.drop_writes => return bio.end(Ok(())),
            _ if features.error_writes => return bio.end(Err(BlkError::IOERR)),
            Op::Write if features.corrupts_writes() => {
                // Fails for a bio that is short enough, and for one that must not be split. The
                // latter is sent as it is.
                let _ = bio.accept_partial(MAX_SECTORS);
            }
            _ => return bio.remap(self.device, sector),
        }
        let corruption = self.corruption(&bio);
        *bio.data() = corruption;
        match op == Op::Write && bio.len_bytes() > 0 && !corruption.is_none() {
            true => bio.defer(|bio| bio.queue(|target| &target.get_ref().queue, write)),
            false => bio.remap(self.device, sector),
        }
    }
}

/// Sends a write with other bytes. The submitter's memory does not change.
fn write(mut bio: dm::Bio<Flakey>) {
    let corruption = *bio.data();
    let (device, sector) = (
        bio.target().device,
        bio.target().sector(bio.target_sector()),
    );

    match bio.bounce(|target| (&target.get_ref().bios, &target.get_ref().pages)) {
        Ok(mut clone) => {
            let (_, data, mut memory) = clone.segments();
            // If this fails, the clone is not sent.
            if memory.copy_from(data).is_ok() {
                corruption.apply(memory);
            }
            clone.submit(device, sector, dm::IrqBio::end);
        }
        // It has too many pages, and must not be split.
        Err(bio) => bio.submit(device, sector),
    }
}
