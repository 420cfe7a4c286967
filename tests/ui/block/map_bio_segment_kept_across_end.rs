// SPDX-License-Identifier: GPL-2.0

//! The pages of a bio are the submitter's once it ended, so no segment of them must be left.

use kscale::block::{
    bio::Segments,
    dm, //
};

fn ends<'a, T: dm::Target>(bio: dm::MapBio<'a, T>, uses: fn(Segments<'_>)) -> dm::MapResult<'a, T> {
    let segments = bio.segments();
    let map = bio.end(Ok(()));
    uses(segments);
    map
}
