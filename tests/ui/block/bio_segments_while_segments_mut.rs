// SPDX-License-Identifier: GPL-2.0

//! Memory that may be written must not be walked for reading at the same time.

use kscale::block::{
    bio::{
        Segments,
        SegmentsMut, //
    },
    dm, //
};

fn walks<T: dm::Target>(mut bio: dm::Bio<T>, uses: fn(Segments<'_>, SegmentsMut<'_>)) {
    let (_, writable) = bio.segments_mut();
    let readable = bio.segments();
    uses(readable, writable);
}
