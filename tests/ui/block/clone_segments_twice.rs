// SPDX-License-Identifier: GPL-2.0

//! Two walks over the same memory would make two segments of it that may be written.

use kscale::block::{
    bio::SegmentsMut,
    dm, //
};

fn walks_twice<T: dm::Target>(
    mut clone: dm::CloneBio<T>,
    uses: fn(SegmentsMut<'_>, SegmentsMut<'_>),
) {
    let (_, _, first) = clone.segments();
    let (_, _, second) = clone.segments();
    uses(first, second);
}
