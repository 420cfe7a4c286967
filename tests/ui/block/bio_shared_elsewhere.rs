// SPDX-License-Identifier: GPL-2.0

//! A clone must be from a set of bios that lives as long as the target.

use kscale::block::{
    bio::BioSet,
    dm, //
};

fn shares<T: dm::Target>(bio: dm::Bio<T>, set: &BioSet) {
    drop(bio.share(|_| set));
}
