// SPDX-License-Identifier: GPL-2.0

//! Bytes that are changed in the data of a bio.

use kernel::prelude::*;

use kscale::{
    block::{
        bio::SegmentsMut,
        dm, //
    },
    lib::random, //
};

use core::num::NonZeroU32;

/// A probability of 1.
const PROBABILITY_BASE: u32 = 1_000_000_000;

/// A byte of each bio of a direction that gets a value.
#[derive(Clone, Copy)]
pub(crate) struct CorruptByte {
    /// From 1 on.
    pub(crate) nth: NonZeroU32,
    pub(crate) is_write: bool,
    pub(crate) value: u8,
    /// Flags that the bio must have (`bi_opf`).
    pub(crate) flags: u32,
}

impl CorruptByte {
    /// Parses the four words.
    pub(crate) fn parse(args: &mut dm::Args<'_>) -> Result<Self, dm::CtrError> {
        const DIRECTION: &CStr = c"Invalid corrupt bio direction (r or w)";

        let nth = args.parsed(c"Invalid corrupt bio byte")?;
        let is_write = match args.required(DIRECTION)?.to_bytes() {
            b"w" | b"W" => true,
            b"r" | b"R" => false,
            _ => return Err(dm::CtrError::invalid(DIRECTION)),
        };
        Ok(Self {
            nth,
            is_write,
            value: args.parsed(c"Invalid corrupt value to write into bio byte (0-255)")?,
            flags: args.parsed(c"Invalid corrupt bio flags mask")?,
        })
    }
}

/// Parses a probability, in billionths.
pub(crate) fn probability(args: &mut dm::Args<'_>) -> Result<u32, dm::CtrError> {
    args.parsed_in(0..=PROBABILITY_BASE, c"Invalid random corrupt argument")
}

/// Bytes of a bio, by their offsets, and the values that they get.
#[derive(Clone, Copy, Default)]
pub(crate) struct Corruption {
    pub(crate) fixed: Option<(u32, u8)>,
    pub(crate) random: Option<(u32, u8)>,
}

impl Corruption {
    /// Returns whether no bytes are changed.
    pub(crate) fn is_none(self) -> bool {
        self.fixed.is_none() && self.random.is_none()
    }

    /// Changes the bytes.
    pub(crate) fn apply(self, mut data: SegmentsMut<'_>) {
        let mut start = 0;

        while let Some(mut segment) = data.next_segment(NonZeroU32::MAX) {
            for (offset, value) in [self.fixed, self.random].into_iter().flatten() {
                // Fails for a byte of another segment.
                if let Some(offset) = offset.checked_sub(start) {
                    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
                    let _ = segment.write_at(offset, &[value]);
                }
            }
            // OVERFLOW: At most the length of the bio.
            start += segment.len();
        }
    }
}

/// Returns, with a probability of `billionths`, a random byte of `len_bytes` and its value.
pub(crate) fn random_byte(billionths: u32, len_bytes: u32) -> Option<(u32, u8)> {
    if billionths == 0 {
        return None;
    }
    let is_chosen = random_u64() % u64::from(PROBABILITY_BASE) < u64::from(billionths);
    let offset = random_u64().checked_rem(len_bytes.into())?;
    let value = random_u64().to_le_bytes()[0];
    is_chosen.then_some((u32::try_from(offset).ok()?, value))
}

fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    random::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}
