// SPDX-License-Identifier: GPL-2.0

//! Memory for a bio may have to be waited for, which an interrupt must not.

use kernel::prelude::*;

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

type Select<T> = fn(Pin<&T>) -> (&BioSet, &Mempool<Pages<0>>);

fn bounces<T: dm::Target>(bio: dm::IrqBio<T>, select: Select<T>) {
    let _ = bio.bounce(select);
}
