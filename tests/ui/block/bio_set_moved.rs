// SPDX-License-Identifier: GPL-2.0

//! C keeps pointers into a set of bios, so it must not move.

use kernel::prelude::*;

use kscale::block::bio::BioSet;

fn moves(set: Pin<KBox<BioSet>>) -> BioSet {
    *Pin::into_inner(set)
}
