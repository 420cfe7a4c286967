// SPDX-License-Identifier: GPL-2.0

//! The pages of a clone must be from a pool that lives as long as the target.

use kscale::{
    block::{
        bio::BioSet,
        dm, //
    },
    mm::mempool::{
        Mempool,
        Pages, //
    }, //
};

fn bounces<T: dm::Target>(bio: dm::Bio<T>, set: &BioSet, pool: &Mempool<Pages<0>>) {
    drop(bio.bounce(|_| (set, pool)));
}
