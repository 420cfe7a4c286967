// SPDX-License-Identifier: GPL-2.0

//! The allocation of a clone may sleep, so an interrupt cannot clone a parent.

use kernel::prelude::*;

use kscale::block::{
    bio::BioSet,
    dm, //
};

fn shares<T: dm::Target>(parent: dm::IrqParentBio<T>, select: fn(Pin<&T>) -> &BioSet) {
    let _ = parent.share(select);
}
