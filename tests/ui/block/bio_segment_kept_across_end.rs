// SPDX-License-Identifier: GPL-2.0

//! The pages of a bio are the submitter's once it ended, so no segment of them must be left.

use core::num::NonZeroU32;

use kscale::block::{
    bio::Segment,
    dm, //
};

fn keeps<T: dm::Target>(bio: dm::Bio<T>, uses: fn(Segment<'_>)) {
    let mut segments = bio.segments();
    if let Some(segment) = segments.next_segment(NonZeroU32::MAX) {
        bio.end(Ok(()));
        uses(segment);
    }
}
