// SPDX-License-Identifier: GPL-2.0

//! A bio that a clone stands for must not end before the clone.

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

fn ends<T: dm::Target>(bio: dm::Bio<T>, select: Select<T>) {
    let clone = bio.bounce(select);
    bio.end(Ok(()));
    drop(clone);
}
