// SPDX-License-Identifier: GPL-2.0

//! The tags are freed when the bio leaves the target, so they must not be used after it ended.

use kscale::block::dm::{
    Bio,
    Target, //
};

fn keeps<T: Target>(mut bio: Bio<T>, uses: fn(&[u8])) {
    let (_, _, tags) = bio.segments_and_integrity();
    bio.end(Ok(()));
    uses(tags);
}
