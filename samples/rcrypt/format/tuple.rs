// SPDX-License-Identifier: GPL-2.0

//! The integrity tuple that the device stores beside each sector: a tag, an IV, or both.
//!
//! ```text
//! | tag, of an AEAD cipher | IV, if it is random | zeros |
//! ```
//!
//! The checks and the messages are those of `crypt_integrity_ctr()` in `drivers/md/dm-crypt.c`.

use kernel::prelude::*;

use core::num::NonZeroU32;

use kscale::block::{
    bio::{
        IntegrityPayload,
        IntegrityPool,
        IntegrityProfile,
        SECTOR_SIZE, //
    },
    dm::{
        self,
        CtrError, //
    }, //
};

use crate::{
    options::Options,
    table::Config,
    Crypt, //
};

/// The layout of a tuple, the bytes beside one sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TupleLayout {
    tuple_size: usize,
    tag_size: usize,
    iv_size: usize,
}

impl TupleLayout {
    /// Fits tags and IVs into the tuples of a device, for the option `integrity:<used_size>`.
    ///
    /// `iv_size` is 0 if the device stores no IVs. `set_tag_size` sets the tag size of the
    /// cipher; it is [`None`] for a cipher without tags.
    pub(crate) fn new(
        profile: Option<IntegrityProfile>,
        options: &Options,
        iv_size: u32,
        set_tag_size: Option<impl FnOnce(usize) -> Result>,
    ) -> Result<Self, CtrError> {
        let profile = profile
            .filter(|profile| !profile.is_protection)
            .ok_or(CtrError::invalid(c"Integrity profile not supported."))?;
        let tuple_size = profile.tuple_size.get();
        let used_size = options
            .integrity
            .map_or(0, |integrity| integrity.tag_size_bytes);

        if tuple_size < used_size {
            return Err(CtrError::invalid(c"Integrity profile tag size mismatch."));
        }
        if profile.interval != options.sector_size.get() {
            return Err(CtrError::invalid(
                c"Integrity profile sector size mismatch.",
            ));
        }
        let tag_size = match set_tag_size {
            None => 0,
            Some(set_tag_size) => {
                const BAD: CtrError =
                    CtrError::invalid(c"Integrity AEAD auth tag size is not supported.");
                let tag_size = used_size.checked_sub(iv_size).ok_or(BAD)?;
                // CAST: From 32 to 64 bits.
                set_tag_size(tag_size as usize).map_err(|_| BAD)?;
                tag_size
            }
        };
        if tag_size.saturating_add(iv_size) > tuple_size {
            return Err(CtrError::invalid(
                c"Not enough space for integrity tag in the profile.",
            ));
        }
        // CAST: From 32 to 64 bits, three times.
        Ok(Self {
            tuple_size: tuple_size as usize,
            tag_size: tag_size as usize,
            iv_size: iv_size as usize,
        })
    }

    /// Returns the tag and the IV of the next sector and advances `tuples`.
    #[inline]
    pub(crate) fn next<'t>(&self, tuples: &mut &'t [u8]) -> Option<(&'t [u8], &'t [u8])> {
        let (tuple, rest) = tuples.split_at_checked(self.tuple_size)?;
        *tuples = rest;

        let (tag, rest) = tuple.split_at_checked(self.tag_size)?;
        Some((tag, rest.get(..self.iv_size)?))
    }

    /// As [`TupleLayout::next()`], mutable.
    #[expect(clippy::mut_mut, reason = "what is left of the slice goes back")]
    #[inline]
    pub(crate) fn next_mut<'t>(
        &self,
        tuples: &mut &'t mut [u8],
    ) -> Option<(&'t mut [u8], &'t mut [u8])> {
        let (tuple, rest) = core::mem::take(tuples).split_at_mut_checked(self.tuple_size)?;
        *tuples = rest;

        let (tag, rest) = tuple.split_at_mut_checked(self.tag_size)?;
        Some((tag, rest.get_mut(..self.iv_size)?))
    }
}

/// Bytes in the reserve for the tuples of one bio, as in dm-crypt. When memory is short, a bio that
/// needs more is split.
const RESERVE_LEN: u32 = 512;

/// Number of bios that the reserve serves, as in dm-crypt.
const RESERVE_BIOS: usize = 64;

/// Allocates the tuples of the bios of a target.
pub(crate) struct TuplePool {
    pool: IntegrityPool,
    /// Number of sectors (512 bytes) whose tuples fit into one element of the reserve.
    reserve_sectors: NonZeroU32,
}

impl TuplePool {
    pub(crate) fn new(layout: TupleLayout, options: &Options) -> Result<Self, CtrError> {
        // CAST: Made of a `u32`.
        let tuple_size = layout.tuple_size as u32;
        let tuples = RESERVE_LEN.checked_div(tuple_size).unwrap_or(0).max(1);
        // OVERFLOW: At most 512 tuples of 255 bytes, and sectors of 4096 bytes.
        let pool = IntegrityPool::new(RESERVE_BIOS, tuples * tuple_size)
            .map_err(|error| CtrError::new(c"Cannot allocate integrity tags mempool", error))?;
        let sectors = tuples * (options.sector_size.get() / SECTOR_SIZE);

        Ok(Self {
            pool,
            reserve_sectors: NonZeroU32::new(sectors).unwrap_or(NonZeroU32::MIN),
        })
    }

    /// Allocates the tuples of a new bio. When memory is short, splits the bio.
    ///
    /// Returns an error if the bio must not be split.
    pub(crate) fn set_tuples(&self, config: &Config, bio: &mut dm::MapBio<'_, Crypt>) -> Result {
        // CAST: Made of a `u32`.
        let tuple_size = config.tuple.tuple_size as u32;
        let len = |bio: &dm::MapBio<'_, Crypt>| {
            (bio.len_bytes() / config.options.sector_size).saturating_mul(tuple_size)
        };
        let payload = match IntegrityPayload::new(len(bio)) {
            Some(payload) => payload,
            None => {
                if bio.len_bytes() / SECTOR_SIZE > self.reserve_sectors.get() {
                    bio.accept_partial(self.reserve_sectors)?;
                }
                // A bio with tuples from the reserve needs no further tuples, so it completes and
                // returns them: this allocation makes progress.
                self.pool.alloc(len(bio))?
            }
        };

        bio.set_integrity(payload);
        Ok(())
    }
}

#[cfg(kscale_kunit)]
#[kunit_tests(rcrypt_tuples)]
mod tests {
    use super::*;

    use crate::options;

    fn profile(tuple_size: u32, interval: u32, is_protection: bool) -> Option<IntegrityProfile> {
        Some(IntegrityProfile {
            tuple_size: NonZeroU32::new(tuple_size)?,
            interval,
            is_protection,
        })
    }

    fn layout(
        profile: Option<IntegrityProfile>,
        used_size: u32,
        iv_size: u32,
        max_tag_size: Option<usize>,
    ) -> Result<TupleLayout, CtrError> {
        let set =
            max_tag_size.map(|max| move |size| if size <= max { Ok(()) } else { Err(EINVAL) });

        let options = Options {
            integrity: options::Integrity::testing(used_size),
            ..Options::DEFAULT
        };

        TupleLayout::new(profile, &options, iv_size, set)
    }

    #[test]
    fn tuples_are_divided_as_by_dm_crypt() {
        for (tuple_size, used_size, iv_size, max_tag_size, expected) in [
            (28, 28, 12, Some(16), (16, 12)),
            (64, 28, 12, Some(16), (16, 12)),
            (16, 16, 0, Some(16), (16, 0)),
            (48, 48, 16, Some(32), (32, 16)),
            (16, 16, 16, None, (0, 16)),
            // The option reserves no space, but the IVs need it.
            (16, 0, 16, None, (0, 16)),
        ] {
            let layout = layout(
                profile(tuple_size, 512, false),
                used_size,
                iv_size,
                max_tag_size,
            );
            assert!(
                layout.ok()
                    == Some(TupleLayout {
                        tuple_size: tuple_size as usize,
                        tag_size: expected.0,
                        iv_size: expected.1,
                    })
            );
        }
    }

    #[test]
    fn unfit_devices_are_refused() {
        for (profile, used_size, iv_size, max_tag_size, message) in [
            (None, 16, 0, Some(16), c"Integrity profile not supported."),
            (
                profile(16, 512, true),
                16,
                0,
                Some(16),
                c"Integrity profile not supported.",
            ),
            (
                profile(15, 512, false),
                16,
                0,
                Some(16),
                c"Integrity profile tag size mismatch.",
            ),
            (
                profile(16, 4096, false),
                16,
                0,
                Some(16),
                c"Integrity profile sector size mismatch.",
            ),
            (
                profile(28, 512, false),
                28,
                0,
                Some(16),
                c"Integrity AEAD auth tag size is not supported.",
            ),
            (
                profile(28, 512, false),
                11,
                12,
                Some(16),
                c"Integrity AEAD auth tag size is not supported.",
            ),
            (
                profile(15, 512, false),
                0,
                16,
                None,
                c"Not enough space for integrity tag in the profile.",
            ),
        ] {
            let error = layout(profile, used_size, iv_size, max_tag_size).err();
            assert!(error.and_then(|error| error.message()) == Some(message));
        }
    }

    #[test]
    fn each_sector_has_its_own_tuple() -> Result {
        let layout = layout(profile(5, 512, false), 4, 1, Some(3)).map_err(|e| e.error())?;
        let bytes = [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20];
        let mut tuples = &bytes[..];

        assert!(layout.next(&mut tuples) == Some((&[0, 1, 2][..], &[3][..])));
        assert!(layout.next(&mut tuples) == Some((&[10, 11, 12][..], &[13][..])));
        assert!(layout.next(&mut tuples).is_none());

        let mut bytes = [0; 10];
        let mut tuples = &mut bytes[..];
        for n in 1..3 {
            let (tag, iv) = layout.next_mut(&mut tuples).ok_or(EINVAL)?;
            tag.fill(n);
            iv.fill(0x80 + n);
        }
        assert!(layout.next_mut(&mut tuples).is_none());
        assert!(bytes == [1, 1, 1, 0x81, 0, 2, 2, 2, 0x82, 0]);
        Ok(())
    }

    #[test]
    fn the_reserve_has_the_tuples_of_512_bytes() -> Result {
        for (tuple_size, sector_size, reserve_sectors) in [
            (16, 512, 32),
            (16, 4096, 256),
            (28, 512, 18),
            (255, 1024, 4),
        ] {
            let layout = TupleLayout {
                tuple_size,
                ..TupleLayout::default()
            };
            let options = Options {
                sector_size: NonZeroU32::new(sector_size).ok_or(EINVAL)?,
                ..Options::DEFAULT
            };
            let pool = TuplePool::new(layout, &options).map_err(|e| e.error())?;
            assert_eq!(pool.reserve_sectors.get(), reserve_sectors);
        }
        Ok(())
    }
}
