// SPDX-License-Identifier: GPL-2.0

//! The device may use the tags of a bio from then on, so whoever gave them must not.

use kscale::block::{
    bio::IntegrityPayload,
    dm::{
        CloneBio,
        Target, //
    }, //
};

fn keeps<T: Target>(mut clone: CloneBio<T>, mut tags: IntegrityPayload) {
    clone.set_integrity(tags);
    tags.as_mut_slice().fill(0);
}
