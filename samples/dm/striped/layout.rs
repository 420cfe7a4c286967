// SPDX-License-Identifier: GPL-2.0

//! The layout of chunks on stripes: where a sector of the line is.

use core::num::NonZeroU32;

use kscale::block::dm;

/// The number of stripes, the length of a chunk, and the length of a stripe.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) stripes: NonZeroU32,
    pub(crate) chunk_sectors: NonZeroU32,
    pub(crate) width_sectors: u64,
}

impl Layout {
    /// Parses the begin of a line of `len_sectors` sectors. Leaves the devices.
    pub(crate) fn parse(args: &mut dm::Args<'_>, len_sectors: u64) -> Result<Self, dm::CtrError> {
        let invalid = dm::CtrError::invalid;

        if args.len() < 2 {
            return Err(invalid(c"Not enough arguments"));
        }
        let stripes: NonZeroU32 = args.parsed(c"Invalid stripe count")?;
        let chunk_sectors: NonZeroU32 = args.parsed(c"Invalid chunk_size")?;
        let count = u64::from(stripes.get());
        let width_sectors = len_sectors / count;

        if len_sectors % count != 0 {
            return Err(invalid(c"Target length not divisible by number of stripes"));
        }
        if width_sectors % u64::from(chunk_sectors.get()) != 0 {
            return Err(invalid(c"Target length not divisible by chunk size"));
        }
        // A device and its first sector for each stripe.
        if u64::try_from(args.len()) != Ok(count * 2) {
            return Err(invalid(c"Not enough destinations specified"));
        }
        Ok(Self {
            stripes,
            chunk_sectors,
            width_sectors,
        })
    }

    /// Returns the stripe of a sector, and the sector on it. C: `stripe_map_sector()`.
    pub(crate) fn locate(self, sector: u64) -> (u32, u64) {
        let chunk_sectors = u64::from(self.chunk_sectors.get());
        let stripes = u64::from(self.stripes.get());
        let (chunk, offset) = (sector / chunk_sectors, sector % chunk_sectors);

        // CAST: Less than `stripes`. OVERFLOW: The result is at most `sector`.
        (
            (chunk % stripes) as u32,
            chunk / stripes * chunk_sectors + offset,
        )
    }

    /// Returns the first sector on `stripe` that is not before `sector` of the line.
    /// C: `stripe_map_range_sector()`.
    pub(crate) fn locate_on(self, stripe: u32, sector: u64) -> u64 {
        let chunk_sectors = u64::from(self.chunk_sectors.get());
        let (at, found) = self.locate(sector);
        let chunk_start = found - found % chunk_sectors;

        if stripe == at {
            found
        } else if stripe > at {
            chunk_start
        } else {
            // The next chunk. A line is shorter than 2^55 sectors.
            chunk_start.saturating_add(chunk_sectors)
        }
    }

    /// Returns the bytes of a chunk, and of a chunk on each stripe, unless there are too many.
    pub(crate) fn io_bytes(self, sector_size: u32) -> Option<(u32, u32)> {
        let chunk_bytes = self.chunk_sectors.get().checked_mul(sector_size)?;
        Some((chunk_bytes, chunk_bytes.checked_mul(self.stripes.get())?))
    }

    /// Returns the length of the longest discard, if `max` is that of each stripe.
    pub(crate) fn max_discard(self, max: u32, unlimited: u32) -> u32 {
        let (stripes, chunk_sectors) = (self.stripes.get(), self.chunk_sectors.get());
        if max < chunk_sectors {
            return max;
        }
        match max.checked_mul(stripes) {
            // OVERFLOW: A chunk is at most as long as `max`.
            Some(all) => {
                all - all
                    .checked_rem(chunk_sectors.wrapping_mul(stripes))
                    .unwrap_or(0)
            }
            None => unlimited,
        }
    }
}
