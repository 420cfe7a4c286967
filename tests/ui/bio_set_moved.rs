// SPDX-License-Identifier: GPL-2.0

//! C keeps pointers into a set of bios, so it must be pinned before it exists.

use core::num::NonZeroU32;

use kscale::bio::BioSet;

fn moves() -> BioSet {
    BioSet::new(NonZeroU32::MIN)
}
