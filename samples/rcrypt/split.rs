// SPDX-License-Identifier: GPL-2.0

//! The maximum size of a bio. Device mapper sends the rest of a longer bio in another bio.
//!
//! Shorter bios keep more CPUs busy, longer bios cost less per byte. The default sizes and the
//! module parameters that change them are those of dm-crypt, with two differences:
//!
//! - dm-crypt accepts only sizes below the default.
//! - A read of 1 MiB is split into no more bios than there are CPUs to decrypt them.

use kernel::page::PAGE_SIZE;

use core::num::NonZeroU32;

use kscale::{
    block::bio::SECTOR_SIZE,
    module::param::writable_param, //
};

use crate::pages::RESERVE_PAGES;

/// The size for a parameter of 0, in bytes.
const DEFAULT: NonZeroU32 = match NonZeroU32::new(131072) {
    Some(bytes) => bytes,
    None => NonZeroU32::MIN,
};

/// The size of a read of which each CPU decrypts a part, by default.
const SHARED_READ: u32 = 1 << 20;

/// Maximum size of a write in bytes: the size of the page reserve.
// CAST: 1 MiB.
pub(crate) const MAX_WRITE: u32 = (RESERVE_PAGES * PAGE_SIZE) as u32;

/// [`MAX_WRITE`] in sectors.
pub(crate) const MAX_WRITE_SECTORS: NonZeroU32 = match NonZeroU32::new(MAX_WRITE / SECTOR_SIZE) {
    Some(sectors) => sectors,
    None => NonZeroU32::MIN,
};

writable_param! {
    /// Maximum size of a read, see [`Sizes::max_sectors()`].
    static MAX_READ_SIZE: Param = (
        "max_read_size",
        0,
        "Maximum size of a read request in bytes, 0 for 131072, or more with few CPUs",
    );
}

writable_param! {
    /// Maximum size of a write, see [`Sizes::max_sectors()`].
    static MAX_WRITE_SIZE: Param = (
        "max_write_size",
        0,
        "Maximum size of a write request in bytes, 0 for 131072, at most 1048576",
    );
}

/// The size limits for the bios of a target.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    /// Alignment of a split, in bytes: a power of two, at least [`SECTOR_SIZE`].
    align: u32,
    /// Maximum size of a read, in bytes.
    max_read: u32,
    /// Size of a read for a parameter of 0, in bytes.
    default_read: NonZeroU32,
}

impl Sizes {
    /// Computes the limits from the encrypted sector size and the device's block size, in bytes.
    ///
    /// A read that `is_checked` by tags may be repeated into bounce pages, so it has the limit of a
    /// write. `n_cpus` is the number of CPUs.
    pub(crate) fn new(
        sector_size: NonZeroU32,
        block_size: NonZeroU32,
        is_checked: bool,
        n_cpus: u32,
    ) -> Self {
        let part = SHARED_READ.checked_div(n_cpus).and_then(NonZeroU32::new);
        Self {
            align: sector_size.max(block_size).get(),
            max_read: if is_checked { MAX_WRITE } else { u32::MAX },
            default_read: part.unwrap_or(DEFAULT).max(DEFAULT),
        }
    }

    /// Returns the maximum size of a bio in sectors.
    #[inline]
    pub(crate) fn max_sectors(self, is_write: bool) -> NonZeroU32 {
        if is_write {
            self.sectors(MAX_WRITE_SIZE.value(), DEFAULT, MAX_WRITE)
        } else {
            self.sectors(MAX_READ_SIZE.value(), self.default_read, self.max_read)
        }
    }

    /// Returns the maximum size in sectors of a bio that must not be split.
    #[inline]
    pub(crate) fn max_whole_sectors(self, is_write: bool) -> NonZeroU32 {
        let limit = if is_write { MAX_WRITE } else { self.max_read };

        self.sectors(u32::MAX, DEFAULT, limit)
    }

    /// Rounds a parameter, or `default` for 0, down to the alignment, to at least one aligned block
    /// and at most `limit`.
    #[inline]
    fn sectors(self, param: u32, default: NonZeroU32, limit: u32) -> NonZeroU32 {
        let bytes = NonZeroU32::new(param).unwrap_or(default).get().min(limit);
        let bytes = (bytes & self.align.wrapping_neg()).max(self.align);

        NonZeroU32::new(bytes / SECTOR_SIZE).unwrap_or(NonZeroU32::MIN)
    }
}

#[cfg(kscale_kunit)]
#[kernel::prelude::kunit_tests(rcrypt_split)]
mod tests {
    use super::*;

    use kernel::prelude::*;

    #[test]
    fn sizes_are_rounded_as_in_dm_crypt() -> Result {
        let sizes = |sector, block| -> Result<Sizes> {
            Ok(Sizes::new(
                NonZeroU32::new(sector).ok_or(EINVAL)?,
                NonZeroU32::new(block).ok_or(EINVAL)?,
                false,
                4,
            ))
        };
        // Sector size, block size, parameter, sectors of a write.
        for (sector, block, param, sectors) in [
            (512, 512, 0, 256),
            (512, 512, 1, 1),
            (512, 512, 1023, 1),
            (512, 512, 131072, 256),
            (4096, 512, 4095, 8),
            (512, 4096, 1, 8),
            (4096, 512, 12287, 16),
            // dm-crypt returns 256 here.
            (512, 512, 1 << 20, 2048),
            (512, 512, (1 << 20) + 4096, 2048),
            (4096, 4096, u32::MAX, 2048),
        ] {
            assert_eq!(
                sizes(sector, block)?
                    .sectors(param, DEFAULT, MAX_WRITE)
                    .get(),
                sectors
            );
        }
        // A read needs no bounce pages.
        assert_eq!(
            sizes(4096, 512)?.max_whole_sectors(false).get(),
            (1 << 23) - 8
        );
        Ok(())
    }

    #[test]
    fn checked_reads_fit_into_the_page_reserve() {
        let size = NonZeroU32::MIN.saturating_add(511);

        for (is_checked, sectors) in [(false, (1 << 23) - 1), (true, MAX_WRITE_SECTORS.get())] {
            let sizes = Sizes::new(size, size, is_checked, 4);
            assert_eq!(sizes.max_whole_sectors(false).get(), sectors);
        }
    }

    #[test]
    fn a_read_has_a_part_for_each_cpu() {
        let size = NonZeroU32::MIN.saturating_add(511);

        // Number of CPUs, bytes of a read.
        for (n_cpus, bytes) in [
            (0, 131072),
            (1, 1 << 20),
            (2, 1 << 19),
            (3, 349184),
            (4, 1 << 18),
            (8, 131072),
            (9, 131072),
            (8192, 131072),
            (u32::MAX, 131072),
        ] {
            let sizes = Sizes::new(size, size, false, n_cpus);
            let read = sizes.sectors(0, sizes.default_read, sizes.max_read);
            assert_eq!(read.get() * SECTOR_SIZE, bytes);
        }
    }
}
