// SPDX-License-Identifier: GPL-2.0

//! Device-mapper sample: the `rzero` target.
//!
//! Reads return zeros, and writes are dropped, as those of `zero`. It has no device: it ends each
//! bio in `map`, and chooses the limits of discards itself.
//!
//! Table line: `<start> <len> rzero`
//!
//! C: `drivers/md/dm-zero.c`.

#![forbid(unsafe_code)]

use kernel::{
    num::casts::IntoSafeCast,
    page::PAGE_SIZE,
    prelude::*, //
};

use core::num::NonZeroU32;

use kscale::block::{
    bio::{
        BlkError,
        BlkResult,
        Op,
        SECTOR_SIZE, //
    },
    dm, //
};

module! {
    type: ZeroModule,
    name: "dm_rzero",
    authors: ["The kscale authors"],
    description: "Device-mapper sample that returns zeros",
    license: "GPL",
}

struct ZeroModule {
    _registration: dm::Registration<Zero>,
}

impl kernel::Module for ZeroModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        Ok(Self {
            _registration: dm::Registration::new(())?,
        })
    }
}

static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];

/// A target instance. It has no state.
struct Zero;

#[vtable]
impl dm::Target for Zero {
    const NAME: &'static CStr = c"rzero";
    const VERSION: [u32; 3] = [1, 2, 0];
    const NOWAIT: bool = true;

    type ModuleData = ();
    type PerBio = ();

    fn ctr(
        _data: &(),
        builder: &mut dm::TargetBuilder<'_>,
        args: dm::Args<'_>,
    ) -> Result<impl PinInit<Self, Error>, dm::CtrError> {
        args.finish(c"No arguments required")?;
        // Discards are dropped as writes are.
        builder.set_num_discard_bios(1);
        builder.set_discards_supported();
        Ok(Ok::<Self, Error>(Self))
    }

    fn map<'a>(self: Pin<&Self>, mut bio: dm::MapBio<'a, Self>) -> dm::MapResult<'a, Self> {
        match bio.op() {
            // Read-ahead of zeros would fill the page cache only.
            Op::Read if bio.is_readahead() => bio.kill(),
            Op::Read => {
                let result = zero_fill(&mut bio);
                bio.end(result)
            }
            Op::Write | Op::Discard => bio.end(Ok(())),
            _ => bio.kill(),
        }
    }

    fn io_hints(self: Pin<&Self>, limits: &mut dm::Limits<'_>) {
        limits.set_max_hw_discard_sectors(u32::MAX);
        limits.set_discard_granularity(NonZeroU32::new(SECTOR_SIZE).unwrap_or(NonZeroU32::MIN));
    }
}

/// Writes zeros to the memory of a read. C: `zero_fill_bio()`.
fn zero_fill(bio: &mut dm::MapBio<'_, Zero>) -> BlkResult {
    let (_, mut memory) = bio.segments_mut();

    while let Some(mut segment) = memory.next_segment(NonZeroU32::MAX) {
        let len = segment.len().into_safe_cast();
        // A segment is within a page.
        let zeros = ZEROS.get(..len).ok_or(BlkError::IOERR)?;
        segment.write_at(0, zeros).map_err(|_| BlkError::IOERR)?;
    }
    Ok(())
}
