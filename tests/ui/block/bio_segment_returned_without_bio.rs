// SPDX-License-Identifier: GPL-2.0

//! A segment lives as long as the bio it is of, so it must not leave the owner's function alone.

use core::num::NonZeroU32;

use kscale::block::{
    bio::Segment,
    dm, //
};

fn leaks<'a, T: dm::Target>(bio: dm::Bio<T>) -> Option<Segment<'a>> {
    bio.segments().next_segment(NonZeroU32::MAX)
}
