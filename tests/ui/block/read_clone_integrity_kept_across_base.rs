// SPDX-License-Identifier: GPL-2.0

//! The memory of a clone goes back to its pool with it, so it must not be used after that.

use kscale::block::{
    bio::SegmentsMut,
    dm::{
        ReadClone,
        Target, //
    }, //
};

fn keeps<T: Target>(mut clone: ReadClone<T>, uses: fn(SegmentsMut<'_>)) {
    let (_, segments, _) = clone.segments_and_integrity();
    drop(clone.into_base());
    uses(segments);
}
