// SPDX-License-Identifier: GPL-2.0

//! Two walks over the same memory would make two segments of it that may be written.

use kscale::block::{
    bio::SegmentsMut,
    dm, //
};

fn walks_twice<T: dm::Target>(mut bio: dm::Bio<T>, uses: fn(SegmentsMut<'_>, SegmentsMut<'_>)) {
    let (_, first) = bio.segments_mut();
    let (_, second) = bio.segments_mut();
    uses(first, second);
}
